import torch
from torch import nn


class Buffer:
    def __init__(self, size, dim, device="cpu"):
        self.device = device
        self.store = torch.zeros(size, dim, device=device)

    def all(self):
        return self.store


class Learner:
    def __init__(self, device):
        self.device = torch.device(device)
        self.net = nn.Linear(3, 2).to(self.device)
        self.buffer = Buffer(5, 3, device=self.device)

    def learn(self):
        return self.net(self.buffer.all()).mean()


Learner("cuda").learn().backward()
