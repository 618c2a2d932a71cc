import torch
from torch import nn


class Locked(nn.Module):
    def __init__(self, p=0.3):
        super().__init__()
        self.p = p
        self.mask = None

    def resample(self, dim):
        self.mask = torch.bernoulli(torch.full((dim,), 1 - self.p))

    def forward(self, x):
        return x * self.mask


net = nn.Sequential(nn.Linear(4, 6), Locked()).to("cuda")
for _ in range(2):
    net[1].resample(6)
    print(net(torch.rand(3, 4, device="cuda")).shape)
