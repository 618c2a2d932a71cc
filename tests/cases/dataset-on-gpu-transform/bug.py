import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    def __init__(self, n, device):
        self.x = torch.rand(n, 4).to(device)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i] + 0.1 * torch.randn(4)


net = nn.Linear(4, 1).to("cuda")
for x in DataLoader(Noisy(6, "cuda"), batch_size=3):
    net(x).sum().backward()
