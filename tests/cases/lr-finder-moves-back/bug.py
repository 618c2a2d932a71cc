import copy

import torch
from torch import nn


def find_rate(model, batch):
    state = copy.deepcopy(model.state_dict())
    model.to("cpu")
    rate = 0.1 / (1 + model(batch.cpu()).abs().mean().item())
    model.load_state_dict(state)
    return rate


device = torch.device("cuda")
model = nn.Linear(4, 1).to(device)
x = torch.rand(8, 4).to(device)
opt = torch.optim.SGD(model.parameters(), lr=find_rate(model, x))
for _ in range(2):
    opt.zero_grad()
    model(x).pow(2).mean().backward()
    opt.step()
