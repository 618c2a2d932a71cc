import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)

    def forward(self, x):
        return self.lin(x - self.mean)


net = Net()
net.mean = torch.rand(3)
net.to("cuda")
print(net(torch.rand(2, 3, device="cuda")).shape)
