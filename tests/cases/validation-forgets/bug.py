import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Trainer:
    def __init__(self, model, train, valid):
        self.model = model.to(device)
        self.train_loader, self.valid_loader = train, valid
        self.loss = nn.MSELoss()
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def step(self, x, y):
        return self.loss(self.model(x), y)

    def train(self):
        for x, y in self.train_loader:
            self.opt.zero_grad()
            self.step(x.to(device), y.to(device)).backward()
            self.opt.step()

    @torch.no_grad()
    def validate(self):
        total = 0.0
        for x, y in self.valid_loader:
            total += self.step(x, y).item()
        return total


def loader(n):
    return DataLoader(TensorDataset(torch.rand(n, 4), torch.rand(n, 1)), batch_size=4)


trainer = Trainer(nn.Linear(4, 1), loader(8), loader(8))
trainer.train()
print(trainer.validate())
