import torch
from torch import nn

with torch.device("meta"):
    net = nn.Linear(4, 2)
net = net.to_empty(device="cuda")
print(net(torch.rand(3, 4, device="cuda")).shape)
