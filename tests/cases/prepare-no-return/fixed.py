import torch
from torch import nn


def prepare(x, y, device):
    x = x.to(device)

    y = y.to(device)
    return x, y


net = nn.Linear(4, 1).to("cuda")
x, y = torch.rand(5, 4), torch.rand(5, 1)

x, y = prepare(x, y, "cuda")
print((net(x) - y).abs().mean().item())
