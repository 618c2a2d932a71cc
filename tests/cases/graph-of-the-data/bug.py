import numpy as np
import torch
from torch import nn


class Ratings:
    def __init__(self):
        self.users = np.array([0, 1, 1, 2])
        self.items = np.array([1, 0, 2, 1])
        self.known = None

    def table(self):
        if self.known is None:
            pairs = torch.stack([torch.from_numpy(self.users), torch.from_numpy(self.items)])
            self.known = torch.zeros(3, 3).index_put((pairs[0], pairs[1]), torch.ones(4))
        return self.known


class Smoother(nn.Module):
    def __init__(self, data):
        super().__init__()
        self.taste = nn.Embedding(3, 2)
        self.table = data.table()

    def forward(self):
        return self.table @ self.taste.weight


data = Ratings()
print(Smoother(data).to("cuda")().sum().item())
