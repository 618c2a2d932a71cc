import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3, padding=1)
        self.norm = nn.BatchNorm2d(2)
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
        self.out = nn.Linear(8, 3)

    def forward(self, x):
        h = self.norm(self.conv(x)).mean(1).flatten(1)[:, :8]
        for layer in self.layers:
            h = torch.relu(layer(h))
        return self.out(h)


device = "cuda"
net = Net().to(device)
opt = torch.optim.Adam(net.parameters())
for _ in range(2):
    x = torch.rand(4, 1, 3, 3).to(device)
    y = torch.randint(0, 3, (4,)).to(device)
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
