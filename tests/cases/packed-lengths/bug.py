import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(9, 4)
        self.lstm = nn.LSTM(4, 5, batch_first=True)

    def forward(self, ids, lengths):
        packed = pack_padded_sequence(self.emb(ids), lengths, batch_first=True, enforce_sorted=False)
        return self.lstm(packed)[1][0]


net = Tagger().to("cuda")
batch = {"ids": torch.randint(0, 9, (2, 6)), "lengths": torch.tensor([6, 3])}
batch = {k: v.to("cuda") for k, v in batch.items()}
print(net(**batch).shape)
