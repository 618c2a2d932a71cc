import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda")
net = nn.Linear(4, 2).to(device)
data = TensorDataset(torch.rand(6, 4), torch.randint(0, 2, (6,)))
for batch in DataLoader(data, batch_size=3):
    for item in batch:
        item = item.to(device)
    x, y = batch
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
