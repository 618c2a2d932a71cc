import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

        self.scales = nn.ParameterList(torch.ones(4) for _ in range(2))

    def forward(self, x):
        x = self.fc(x)
        for scale in self.scales:
            x = x * scale
        return x


net = nn.DataParallel(Net().cuda(), device_ids=[0, 1])
print(net(torch.rand(4, 4).cuda()).shape)
