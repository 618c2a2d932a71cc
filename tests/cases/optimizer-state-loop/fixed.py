import torch
from torch import nn

net = nn.Linear(3, 2).to("cuda")
opt = torch.optim.Adam(net.parameters())
net(torch.rand(2, 3, device="cuda")).sum().backward()
opt.step()
for state in opt.state.values():
    for key, value in state.items():
        if torch.is_tensor(value) and value.dim():
            state[key] = value.clone()
opt.step()
