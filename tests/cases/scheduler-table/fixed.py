import torch
from torch import nn


class Schedule(nn.Module):
    def __init__(self, steps=8):
        super().__init__()
        self.net = nn.Linear(5, 4)
        betas = torch.linspace(1e-4, 0.02, steps)
        self.register_buffer("alphas", torch.cumprod(1 - betas, dim=0))

    def forward(self, x):
        t = torch.randint(0, 8, (x.size(0),), device=x.device)
        a = self.alphas.gather(0, t).unsqueeze(1)
        return self.net(torch.cat([x * a, t.unsqueeze(1).float()], 1))


net = Schedule().to("cuda")
net(torch.rand(3, 4, device="cuda")).sum().backward()
