import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, vocab=11, dim=6):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.gru = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, vocab)

    def init_hidden(self, batch):
        return torch.zeros(1, batch, self.gru.hidden_size, device=self.out.weight.device)

    def forward(self, ids):
        hidden = self.init_hidden(ids.size(0))
        out, _ = self.gru(self.emb(ids), hidden)
        return self.out(out)


net = Decoder().cuda()
ids = torch.randint(0, 11, (2, 4)).cuda()
loss = nn.functional.cross_entropy(net(ids).transpose(1, 2), ids)
loss.backward()
