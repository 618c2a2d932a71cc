import torch
from torch import nn

net = nn.Linear(4, 1).to("cuda")
data = torch.rand(12, 4)
for start in range(0, 12, 4):
    chunk = data[start : start + 4]
    net(chunk).sum().backward()
