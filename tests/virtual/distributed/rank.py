"""One of two ranks: `python rank.py RANK FOLDER` trains with gloo on the CPU, then with nccl on virtual GPUs.

It writes what both runs computed to FOLDER; each comparison is the test's.
"""

import faulthandler
import pickle
import sys
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from samedevice import virtual_gpus

WORLD = 2


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(4, 8), nn.BatchNorm1d(8)
        self.extra, self.last = nn.Linear(8, 8), nn.Linear(8, 3)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x: Any, extra: bool = False) -> Any:
        x = self.norm(self.first(x)).relu()
        return self.last(self.extra(x) if extra else x)


def net(kind: Callable[[], nn.Module] = Net) -> nn.Module:
    torch.manual_seed(0)
    return kind()


def plain() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))


def batches(rank: int, device: Any, steps: int = 3) -> Any:
    generator = torch.Generator().manual_seed(rank)
    for _ in range(steps):
        x = torch.randn(6, 4, generator=generator)
        yield x.to(device), torch.randint(0, 3, (6,), generator=generator).to(device)


def numbers(tensors: Any) -> list[Any]:
    """Values in full precision, gathered from all ranks where they are sharded."""
    whole = [t.full_tensor() if hasattr(t, "full_tensor") else t for t in tensors]
    return [t.detach().cpu().float().tolist() for t in whole]


def train(model: nn.Module, rank: int, device: Any, **forward: Any) -> list[Any]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    for x, y in batches(rank, device):
        loss = nn.functional.cross_entropy(model(x, **forward), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return [losses, *numbers(model.parameters()), *numbers(model.buffers())]


def with_ddp(rank: int, device: Any, ids: Any) -> list[Any]:
    found = []
    model = DistributedDataParallel(net().to(device), ids, find_unused_parameters=True)
    found += train(model, rank, device)
    model = DistributedDataParallel(net().to(device), ids, gradient_as_bucket_view=True)
    found += train(model, rank, device, extra=True)
    with model.no_sync():
        for x, _ in batches(rank, device):
            model(x, extra=True).sum().backward()
    model(x, extra=True).sum().backward()
    found += numbers(p.grad for p in model.parameters())
    assert all(p.grad.device == torch.device(device) for p in model.parameters())

    def hook(state, bucket):  # type: ignore[no-untyped-def]  # DDP looks at annotations
        assert bucket.buffer().device == torch.device(device)
        future = dist.all_reduce(bucket.buffer().div_(WORLD), async_op=True).get_future()
        return future.then(lambda f: f.value()[0])

    model = DistributedDataParallel(net().to(device), ids)
    model.register_comm_hook(None, hook)
    found += train(model, rank, device, extra=True)
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = DistributedDataParallel(net(plain).to(device), ids)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    with model.join():
        for x, _ in batches(rank, device, 1 + rank):
            model(x).sum().backward()
    optimizer.step()
    return found + numbers(model.parameters())


def with_fsdp(rank: int, device: Any) -> list[Any]:
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = dist.init_device_mesh(torch.device(device).type, (WORLD,))
    found = []
    for options in ({}, {"mp_policy": MixedPrecisionPolicy(torch.bfloat16, torch.float32)}):
        model = net(plain).to(device)
        for layer in (model[0], model[2], model[4], model):
            fully_shard(layer, mesh=mesh, **options)
        found += train(model, rank, device)
    model = parallelize_module(net(plain).to(device), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    for x, _ in batches(0, device):
        model(x).sum().backward()
    assert model[0].weight.grad.device == torch.device(device)
    return found + numbers(p.grad for p in model.parameters())


def with_messages(rank: int, device: Any) -> list[Any]:
    own = torch.full((2,), float(rank), device=device)
    other = torch.empty(2, device=device)
    peer = 1 - rank
    sent = [dist.P2POp(dist.isend, own, peer), dist.P2POp(dist.irecv, other, peer)]
    for work in dist.batch_isend_irecv(sent):
        work.wait()
    objects: list[Any] = [None] * WORLD
    dist.all_gather_object(objects, {"rank": rank})
    mean = own.clone()
    if dist.get_backend() == "nccl":
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    else:
        dist.all_reduce(mean)
        mean /= WORLD
    both = torch.empty(4, device=device)
    dist.all_gather_into_tensor(both, own)
    part = torch.empty(1, device=device)
    dist.reduce_scatter_tensor(part, own)
    dist.barrier()
    return [objects, *numbers([other, mean, both, part])]


def normalised(rank: int, device: Any) -> bool:
    """SyncBatchNorm over two halves of a batch against BatchNorm over the whole."""
    torch.manual_seed(5)
    x, weights = torch.randn(8, 3, 4), torch.randn(8, 3, 4)
    half = slice(4 * rank, 4 * rank + 4)
    own = nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm1d(3)).to(device)
    whole = nn.BatchNorm1d(3)
    part, all_of_it = x[half].to(device).requires_grad_(), x.clone().requires_grad_()
    y, z = own(part), whole(all_of_it)
    (y * weights[half].to(device)).sum().backward()
    (z * weights).sum().backward()
    pairs = [(y, z[half]), (part.grad, all_of_it.grad[half]), (own.running_var, whole.running_var)]
    return all(torch.allclose(a.cpu(), b, atol=1e-5) for a, b in pairs)


def mistaken(rank: int) -> list[Any]:
    """A program with mistakes: all ranks report and reach the end together."""
    x = torch.ones(2, device="cuda")  # nobody chose the rank's GPU
    dist.all_reduce(x)
    count = torch.tensor([1.0])
    dist.all_reduce(count)
    dist.broadcast(torch.ones(2) if rank == 1 else torch.ones(2, device="cuda"), 0)
    dist.barrier()
    return [x.tolist(), count.tolist()]


def exchanged(rank: int) -> list[Any]:
    """The ranks exchange their GPUs, all in the same collective, and go back again."""
    found = []
    for device in (rank, 1 - rank, rank):
        x = torch.ones(2, device=f"cuda:{device}")
        dist.all_reduce(x)
        found.append(x.tolist())
        with torch.cuda.device(device):
            dist.barrier()
    return found


def strayed(rank: int) -> list[Any]:
    """Rank 1 works on rank 0's GPU for once, and rank 0 does not make room for it."""
    x = torch.ones(2, device=f"cuda:{rank}")
    dist.all_reduce(x)
    count = torch.ones(2, device="cuda:0")
    dist.all_reduce(count)
    dist.all_reduce(x)
    return [x.tolist(), count.tolist()]


def on_cpu(rank: int) -> list[Any]:
    return [with_ddp(rank, "cpu", None), with_fsdp(rank, "cpu"), with_messages(rank, "cpu")]


def on_gpus(rank: int) -> list[Any]:
    device = f"cuda:{rank}"
    torch.cuda.set_device(device)
    found = [with_ddp(rank, device, [rank]), with_fsdp(rank, device), with_messages(rank, device)]
    return [*found, normalised(rank, device)]


def run(backend: str, rank: int, folder: Path, work: Callable[[], Any], name: str) -> Any:
    name = f"file://{folder / name}"
    # A rank that dies must not leave the other one waiting for half an hour.
    options = {"rank": rank, "world_size": WORLD, "timeout": timedelta(seconds=60)}
    dist.init_process_group(backend, init_method=name, **options)
    try:
        return work()
    finally:
        dist.destroy_process_group()


def main(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    found: dict[str, Any] = {}

    found["plain"] = run("gloo", rank, folder, lambda: on_cpu(rank), "plain")
    for tier in ("fast", "exact"):
        with virtual_gpus(WORLD, exact=tier == "exact"):
            found[tier] = run("nccl", rank, folder, lambda: on_gpus(rank), tier)
    with virtual_gpus(WORLD, "report") as engine:
        found["mistaken"] = run("nccl", rank, folder, lambda: mistaken(rank), "mistaken")
    for name, work in (("exchanged", exchanged), ("strayed", strayed)):
        with virtual_gpus(WORLD, "report") as engine_of_two:
            done = run("nccl", rank, folder, lambda work=work: work(rank), name)
        found[name] = [done, *(d.message for d in engine_of_two.diagnostics())]
    found["diagnostics"] = [(d.rule, d.message, d.fix.title if d.fix else None) for d in engine.diagnostics()]
    with virtual_gpus(WORLD):

        def sharing() -> None:
            try:
                dist.all_reduce(torch.ones(2, device="cuda"))
            except dist.DistBackendError as error:
                found["sharing"] = str(error)

        run("nccl", rank, folder, sharing, "sharing")
    (folder / f"{rank}.pickle").write_bytes(pickle.dumps(found))


if __name__ == "__main__":
    faulthandler.dump_traceback_later(100, exit=True)  # ranks that wait for each other say where
    warnings.simplefilter("ignore")
    main(int(sys.argv[1]), Path(sys.argv[2]))
