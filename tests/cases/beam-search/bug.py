import torch
from torch import nn

device = torch.device("cuda")
emb = nn.Embedding(9, 6).to(device)
rnn = nn.GRUCell(6, 6).to(device)
out = nn.Linear(6, 9).to(device)


@torch.no_grad()
def generate(steps):
    token = torch.zeros(1, dtype=torch.long, device=device)
    hidden = torch.zeros(1, 6)
    result = []
    for _ in range(steps):
        hidden = rnn(emb(token), hidden)
        token = out(hidden).argmax(-1)
        result.append(token.item())
    return result


print(len(generate(3)))
