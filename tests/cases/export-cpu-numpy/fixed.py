import torch
from torch import nn


def save(model, path):
    torch.save({k: v.cpu() for k, v in model.state_dict().items()}, path)


def main(tmp):
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1)).cuda()
    opt = torch.optim.Adam(net.parameters())
    for epoch in range(2):
        loss = net(torch.rand(5, 4).cuda()).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        save(net, tmp)


import os, tempfile

main(os.path.join(tempfile.mkdtemp(), "net.pt"))
