import torch
from torch import nn
from torch.utils.data import DataLoader


class Tokens(dict):
    moved = ("ids", "mask")

    def to(self, device):
        return Tokens(self, **{name: self[name].to(device) for name in self.moved})


def collate(rows):
    ids = torch.tensor(rows)
    return Tokens(ids=ids, mask=ids > 1, texts=["…"] * len(rows))


class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5, 3)

    def forward(self, batch):
        return (self.embed(batch["ids"]) * batch["mask"].float().unsqueeze(-1)).sum(1)


model = Pooled().cuda()
for batch in DataLoader([[1, 2, 3], [4, 1, 0]], batch_size=2, collate_fn=collate):
    print(model(batch.to("cuda")).shape)
