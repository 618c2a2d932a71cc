from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Sample:
    ids: torch.Tensor
    mask: torch.Tensor
    label: torch.Tensor

    def to(self, device):
        return Sample(self.ids.to(device), self.mask.to(device), self.label.to(device))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(9, 4)
        self.out = nn.Linear(4, 2)

    def forward(self, ids, mask):
        h = self.emb(ids) * mask.unsqueeze(-1)
        return self.out(h.sum(1))


net = Net().to("cuda")
for _ in range(2):
    batch = Sample(torch.randint(0, 9, (3, 5)), torch.ones(3, 5), torch.tensor([0, 1, 0])).to("cuda")
    loss = nn.functional.cross_entropy(net(batch.ids, batch.mask), batch.label)
    loss.backward()
