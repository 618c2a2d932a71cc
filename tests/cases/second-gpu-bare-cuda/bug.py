import torch
from torch import nn

rank = 1
model = nn.Linear(4, 2).to(f"cuda:{rank}")
for _ in range(2):
    x = torch.rand(3, 4).cuda()
    model(x).sum().backward()
