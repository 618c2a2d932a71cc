import copy

import torch
from torch import nn

student = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
student = student.to("cuda")
teacher = copy.deepcopy(student).eval().requires_grad_(False)
opt = torch.optim.SGD(student.parameters(), lr=0.1)
for _ in range(2):
    x = torch.rand(5, 4, device="cuda")
    with torch.no_grad():
        soft = teacher(x).softmax(-1)
    loss = -(soft * student(x).log_softmax(-1)).sum(-1).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
