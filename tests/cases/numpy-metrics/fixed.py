import numpy as np
import torch
from torch import nn

net = nn.Linear(4, 1).to("cuda")
targets = np.random.rand(6)
with torch.no_grad():
    predicted = net(torch.rand(6, 4, device="cuda")).squeeze(1)
print(np.mean(np.abs(np.asarray(predicted.cpu()) - targets)))
