import torch
from torch import nn

device = torch.device("cuda")


def train(model, opt, steps, device):
    for _ in range(steps):
        opt.zero_grad()
        model(torch.rand(4, 3, device=device)).pow(2).mean().backward()
        opt.step()


model = nn.Linear(3, 2)
opt = torch.optim.Adam(model.parameters(), lr=0.1)
train(model, opt, 2, "cpu")
model.to(device)
train(model, opt, 2, device)
