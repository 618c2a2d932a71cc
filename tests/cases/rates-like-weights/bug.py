import torch
from torch import nn


class Rates:
    def __init__(self, model):
        self.of = {n: torch.full_like(p.detach(), 0.1) for n, p in model.named_parameters()}

    def stepped(self, model):
        return [p - self.of[n] * p.grad for n, p in model.named_parameters()]


device = "cuda"
model = nn.Linear(3, 2)
rates = Rates(model)
model.to(device)
model(torch.ones(4, 3, device=device)).sum().backward()
print(len(rates.stepped(model)))
