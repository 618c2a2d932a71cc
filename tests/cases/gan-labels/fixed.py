import torch
from torch import nn

device = torch.device("cuda")
disc = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 1)).to(device)
bce = nn.BCEWithLogitsLoss()
for _ in range(2):
    real = torch.rand(3, 6).to(device)
    ones = torch.ones(3, 1, device=device)
    loss = bce(disc(real), ones)
    loss.backward()
