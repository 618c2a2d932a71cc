from functools import lru_cache

import torch
from torch import nn


@lru_cache(maxsize=8)
def causal(n):
    return torch.ones(n, n).tril().bool()


def attend(x):
    scores = x @ x.transpose(1, 2)
    return scores.masked_fill(~causal(x.size(1)), float("-inf")).softmax(-1) @ x


net = nn.Linear(4, 4).cuda()
for _ in range(2):
    print(attend(net(torch.rand(1, 3, 4).cuda())).shape)
