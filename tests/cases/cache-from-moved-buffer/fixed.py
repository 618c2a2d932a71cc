import torch
from torch import nn


class Waves(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.register_buffer("rate", 100.0 ** -(torch.arange(dim) / dim))
        self.seen = None

    def angles(self, length):
        if self.seen is None or self.seen.device != self.rate.device:
            steps = torch.arange(length, device=self.rate.device)
            self.seen = torch.outer(steps, self.rate)
        return self.seen

    def forward(self, x):
        return x * self.angles(x.size(0)).cos()


net = nn.Sequential(Waves(), nn.Linear(4, 2))
print(net(torch.ones(3, 4)).shape)
net.cuda()
print(net(torch.ones(3, 4).cuda()).shape)
