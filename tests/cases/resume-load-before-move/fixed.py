import io

import torch
from torch import nn

device = torch.device("cuda")
file = io.BytesIO()
first = nn.Linear(3, 2).to(device)
opt = torch.optim.SGD(first.parameters(), lr=0.1, momentum=0.9)
first(torch.rand(4, 3, device=device)).sum().backward()
opt.step()
torch.save({"model": first.state_dict(), "opt": opt.state_dict()}, file)

file.seek(0)
state = torch.load(file, map_location="cpu")
model = nn.Linear(3, 2)
model.load_state_dict(state["model"])
model.to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
optimizer.load_state_dict(state["opt"])
model.to(device)
model(torch.rand(4, 3, device=device)).sum().backward()
optimizer.step()
