import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--aux-device", default="cuda")
args = parser.parse_args([])
net = nn.Linear(3, 3).to("cuda")
bias = torch.zeros(3, device=args.aux_device)
print((net(torch.rand(2, 3, device="cuda")) + bias).shape)
