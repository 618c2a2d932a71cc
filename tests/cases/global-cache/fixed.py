import torch
from torch import nn

_TABLES = {}


def sinusoid(n, dim, like):
    if n not in _TABLES or _TABLES[n].device != like.device:
        _TABLES[n] = torch.outer(torch.arange(n, device=like.device), torch.rand(dim, device=like.device))
    return _TABLES[n]


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x):
        return self.lin(x + sinusoid(x.size(1), 4, x))


net = Encoder()
print(net(torch.rand(1, 3, 4)).shape)
net.to("cuda")
print(net(torch.rand(1, 3, 4, device="cuda")).shape)
