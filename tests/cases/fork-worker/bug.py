import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return torch.full((2,), float(i)).to("cuda")


if __name__ == "__main__":
    net = nn.Linear(2, 1).to("cuda")
    for x in DataLoader(Rows(), batch_size=2, num_workers=1):
        print(net(x).shape)
