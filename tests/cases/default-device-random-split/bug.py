import torch
from torch.utils.data import TensorDataset, random_split

torch.set_default_device("cuda")
data = TensorDataset(torch.rand(10, 3))
train, valid = random_split(data, [8, 2])
print(len(train), len(valid))
