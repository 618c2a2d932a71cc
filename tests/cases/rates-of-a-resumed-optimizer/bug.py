import os
import tempfile

import torch
from torch import nn


class Rated(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {})

    @torch.no_grad()
    def step(self):
        for p in self.param_groups[0]["params"]:
            if "rate" not in self.state[p]:
                self.state[p]["rate"] = torch.full_like(p, 0.1)
            p -= self.state[p]["rate"] * p.grad

    def state_dict(self):
        return {"rates": [self.state[p]["rate"] for p in self.param_groups[0]["params"]]}

    def load_state_dict(self, saved):
        for p, rate in zip(self.param_groups[0]["params"], saved["rates"], strict=True):
            self.state[p]["rate"] = rate.double().float()


def trained(saved=None):
    model = nn.Linear(3, 2).to("cuda")
    optimizer = Rated(model.parameters())
    if saved is not None:
        optimizer.load_state_dict(torch.load(saved, map_location="cpu"))
    model(torch.ones(4, 3, device="cuda")).sum().backward()
    optimizer.step()
    return optimizer


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "state.pt")
    torch.save(trained().state_dict(), path)
    print(len(trained(path).state_dict()["rates"]))
