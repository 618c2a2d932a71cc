import torch
from torch import nn

device = torch.device("cuda")
net = nn.Linear(3, 2).to(device)
losses = [torch.zeros(1, device=device)]
for _ in range(3):
    loss = net(torch.rand(4, 3, device=device)).pow(2).mean()
    losses.append(loss.detach().reshape(1))
print(torch.cat(losses).mean().item())
