import copy

import torch
from torch import nn


def soft_update(target, source, tau):
    for t, s in zip(target.parameters(), source.parameters()):
        t.data.copy_(t.data * (1 - tau) + s.data * tau)


class Agent:
    def __init__(self, device):
        self.actor = nn.Linear(3, 2)
        self.target = copy.deepcopy(self.actor)
        self.actor.to(device)
        self.device = device

    def update(self):
        self.actor(torch.rand(4, 3, device=self.device)).sum().backward()
        soft_update(self.target, self.actor, 0.1)


Agent(torch.device("cuda")).update()
