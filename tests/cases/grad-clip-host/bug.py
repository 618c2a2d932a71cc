import torch
from torch import nn

net = nn.Linear(4, 2).to("cuda")
limits = {"weight": torch.full((2, 4), 0.1), "bias": torch.full((2,), 0.1)}
net(torch.rand(3, 4, device="cuda")).sum().backward()
for name, p in net.named_parameters():
    p.grad = torch.minimum(p.grad, limits[name])
