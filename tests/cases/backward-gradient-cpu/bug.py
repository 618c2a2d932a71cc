import torch
from torch import nn

net = nn.Linear(4, 3).to("cuda")
out = net(torch.rand(5, 4, device="cuda"))
weights = torch.ones(5, 3)
out.backward(weights)
