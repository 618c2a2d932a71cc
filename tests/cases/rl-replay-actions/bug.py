import random

import torch
from torch import nn

device = torch.device("cuda")


class Replay:
    def __init__(self):
        self.rows = []

    def push(self, *row):
        self.rows.append(row)

    def sample(self, n):
        rows = random.sample(self.rows, n)
        return [torch.stack(column) for column in zip(*rows)]


def learn(q, target, memory, opt):
    states, actions, rewards = memory.sample(4)
    states = states.to(device)
    rewards = rewards.to(device)
    values = q(states).gather(1, actions.unsqueeze(1)).squeeze(1)
    with torch.no_grad():
        goal = rewards + 0.9 * target(states).max(1).values
    loss = (values - goal).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()


q, target = nn.Linear(3, 2).to(device), nn.Linear(3, 2).to(device)
memory = Replay()
for i in range(8):
    memory.push(torch.rand(3), torch.tensor(i % 2), torch.tensor(float(i)))
learn(q, target, memory, torch.optim.SGD(q.parameters(), lr=0.1))
