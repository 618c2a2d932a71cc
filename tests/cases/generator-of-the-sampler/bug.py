import torch
from torch.utils.data import DataLoader, RandomSampler


def seeded(device, seed):
    generator = torch.Generator(device=device)
    generator.manual_seed(seed)
    return generator


def loader(data, device):
    sampler = RandomSampler(data, generator=seeded(device, 1))
    return DataLoader(data, batch_size=2, sampler=sampler)


for batch in loader(list(range(6)), torch.device("cuda")):
    print(batch.tolist())
