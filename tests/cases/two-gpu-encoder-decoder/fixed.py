import torch
from torch import nn


class Pipeline(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(4, 6).to("cuda:0")
        self.decoder = nn.Linear(6, 4).to("cuda:1")

    def forward(self, x):
        h = torch.relu(self.encoder(x))
        return self.decoder(h.to("cuda:1"))


net = Pipeline()
print(net(torch.rand(2, 4, device="cuda:0")).shape)
