import torch
from torch import nn


class CachedAttention(nn.Module):
    def __init__(self, dim=4, length=8):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.keys = torch.zeros(1, length, dim)
        self.values = torch.zeros(1, length, dim)
        self.pos = 0

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        self.keys[:, self.pos] = k[:, 0]
        self.values[:, self.pos] = v[:, 0]
        self.pos += 1
        att = torch.softmax(q @ self.keys[:, : self.pos].transpose(1, 2), -1)
        return att @ self.values[:, : self.pos]


net = CachedAttention().to("cuda").eval()
with torch.no_grad():
    for _ in range(2):
        print(net(torch.rand(1, 1, 4, device="cuda")).shape)
