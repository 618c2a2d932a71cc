import torch
from torch import nn


def subsequent_mask(size):
    return torch.triu(torch.full((size, size), float("-inf")), diagonal=1)


class Block(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.attn = nn.MultiheadAttention(dim, 2, batch_first=True)

    def forward(self, x):
        mask = subsequent_mask(x.size(1))
        return self.attn(x, x, x, attn_mask=mask)[0]


block = Block().cuda()
print(block(torch.rand(2, 5, 8, device="cuda")).shape)
