import math

import torch
from torch import nn


class SinePositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        half = self.dim // 2
        freqs = torch.exp(-math.log(10000) * torch.arange(half).float() / half)
        args = x[:, None] * freqs[None]
        return torch.cat([args.sin(), args.cos()], dim=-1)


net = nn.Sequential(SinePositions(8), nn.Linear(8, 2)).to("cuda")
print(net(torch.rand(3, device="cuda")).shape)
