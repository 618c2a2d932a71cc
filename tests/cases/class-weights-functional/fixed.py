import torch
import torch.nn.functional as F
from torch import nn

device = torch.device("cuda")
weights = torch.tensor([0.2, 0.3, 0.5], device=device)
net = nn.Linear(4, 3).to(device)
x, y = torch.rand(6, 4).to(device), torch.randint(0, 3, (6,)).to(device)
print(F.cross_entropy(net(x), y, weight=weights).item())
