import torch
from torch import nn


class Average:
    def __init__(self, model, decay=0.99):
        self.decay = decay
        self.shadow = {k: v.detach().clone() for k, v in model.state_dict().items()}

    def update(self, model):
        for k, v in model.state_dict().items():
            self.shadow[k].mul_(self.decay).add_(v.detach(), alpha=1 - self.decay)


model = nn.Linear(3, 2)
model.to("cuda")
ema = Average(model)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    model(torch.rand(4, 3, device="cuda")).sum().backward()
    opt.step()
    ema.update(model)
