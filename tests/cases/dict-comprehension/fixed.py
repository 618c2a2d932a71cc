import torch
from torch import nn
from torch.utils.data import DataLoader

rows = [{"x": torch.rand(4), "meta": {"weight": torch.rand(())}, "y": torch.tensor(i % 2)} for i in range(6)]
net = nn.Linear(4, 2).cuda()
for batch in DataLoader(rows, batch_size=3):
    batch = {k: v.cuda() if torch.is_tensor(v) else {a: b.cuda() for a, b in v.items()} for k, v in batch.items()}
    loss = nn.functional.cross_entropy(net(batch["x"]), batch["y"], reduction="none")
    (loss * batch["meta"]["weight"]).mean().backward()
