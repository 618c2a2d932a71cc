"""Trains on two GPUs with DistributedDataParallel; every other epoch the first rank evaluates.

The mistake is in what only rank 0 runs, so the other rank never meets it. Where GPUs are real it ends the
run after the first epoch: rank 0 dies, and rank 1 waits for it in the next all-reduce.
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

CLASSES = 3


def dataset(size, seed):
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn(size, 2, generator=generator)
    labels = (points[:, 0] > 0).long() + (points[:, 1] > 0).long()
    return TensorDataset(points, labels)


def evaluate(model, loader, device):
    """Accuracy by class."""
    right, seen = torch.zeros(CLASSES), torch.zeros(CLASSES)
    model.eval()
    with torch.no_grad():
        for points, labels in loader:
            points, labels = points.to(device), labels.to(device)
            guesses = model(points).argmax(dim=1)
            for label in range(CLASSES):
                right[label] += ((guesses == label) & (labels == label)).sum()
            seen += torch.bincount(labels, minlength=CLASSES)
    model.train()
    return right / seen


def main():
    dist.init_process_group("nccl")
    rank, device = dist.get_rank(), torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, CLASSES)).to(device)
    model = DistributedDataParallel(model, device_ids=[device.index])
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    train = dataset(256, seed=1)
    sampler = DistributedSampler(train, seed=0)
    loader = DataLoader(train, batch_size=32, sampler=sampler)
    held_out = DataLoader(dataset(64, seed=2), batch_size=32)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        total = torch.zeros((), device=device)
        for points, labels in loader:
            points, labels = points.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            loss = nn.functional.cross_entropy(model(points), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()
        dist.all_reduce(total)
        if rank == 0:
            accuracy = evaluate(model.module, held_out, device)
            mean = total.item() / len(loader) / dist.get_world_size()
            print(f"epoch {epoch}: loss {mean:.3f}, worst class {accuracy.min().item():.0%}", flush=True)
        dist.barrier(device_ids=[device.index])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
