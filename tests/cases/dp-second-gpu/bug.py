import torch
from torch import nn

net = nn.Linear(4, 2).to("cuda:1")
net = nn.DataParallel(net, device_ids=[0, 1])
print(net(torch.rand(4, 4).to("cuda:0")).shape)
