import torch
from torch import nn

device = torch.device("cuda:0")
counts = torch.tensor([10.0, 5.0, 1.0])
criterion = nn.CrossEntropyLoss(weight=counts.sum() / counts).to(device)
net = nn.Linear(4, 3).to(device)
for _ in range(2):
    x = torch.rand(6, 4, device=device)
    y = torch.randint(0, 3, (6,), device=device)
    criterion(net(x), y).backward()
