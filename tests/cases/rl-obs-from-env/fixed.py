import numpy as np
import torch
from torch import nn


class Env:
    def reset(self):
        return np.zeros(3, dtype=np.float32)

    def step(self, action):
        return np.random.rand(3).astype(np.float32), 1.0, False


class Agent:
    def __init__(self, device):
        self.device = device
        self.policy = nn.Linear(3, 2).to(device)

    def act(self, obs):
        obs = torch.as_tensor(obs, device=self.device).unsqueeze(0)
        return self.policy(obs).argmax(1).item()


env, agent = Env(), Agent(torch.device("cuda"))
obs = env.reset()
for _ in range(3):
    obs, reward, done = env.step(agent.act(obs))
