import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body = nn.Linear(6, 8)
        self.head = nn.Linear(8, classes)

    def forward(self, x):
        return self.head(torch.relu(self.body(x)))


def load_pretrained(device):
    return Classifier(10).to(device)


def main():
    device = torch.device("cuda")
    model = load_pretrained(device)
    model.head = nn.Linear(8, 3)
    opt = torch.optim.Adam(model.head.parameters())
    for _ in range(2):
        x = torch.rand(4, 6, device=device)
        y = torch.randint(0, 3, (4,), device=device)
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


main()
