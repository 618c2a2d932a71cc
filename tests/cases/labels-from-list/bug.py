import torch
from torch import nn
from torch.utils.data import DataLoader

names = ["cat", "dog", "owl"]


def collate(rows):
    images = torch.stack([r[0] for r in rows])
    return images, [r[1] for r in rows]


def encode(labels):
    return torch.tensor([names.index(n) for n in labels])


net = nn.Linear(4, 3).cuda()
rows = [(torch.rand(4), names[i % 3]) for i in range(6)]
for images, labels in DataLoader(rows, batch_size=3, collate_fn=collate):
    loss = nn.functional.cross_entropy(net(images.cuda()), encode(labels))
    loss.backward()
