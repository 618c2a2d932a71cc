import torch
from torch import nn


class MultiHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Linear(4, 4)
        self.heads = {"cls": nn.Linear(4, 2), "reg": nn.Linear(4, 1)}

    def forward(self, x, task):
        return self.heads[task](self.shared(x))


net = MultiHead()
net.cuda()
x = torch.rand(3, 4).cuda()
print(net(x, "cls").shape, net(x, "reg").shape)
