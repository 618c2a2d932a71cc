import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda")
net = nn.Linear(4, 2).to(device)
loader = DataLoader(TensorDataset(torch.rand(6, 4), torch.randint(0, 2, (6,)), torch.rand(6)), batch_size=3)
for batch in loader:
    x, y, w = batch
    x, y, w = x.to(device), y.to(device), w.to(device)
    loss = nn.functional.cross_entropy(net(x), y, reduction="none")
    loss = (loss * w).mean()
    loss.backward()
