"""What `nn.DataParallel` and `torch.nn.parallel.comm` call in C++: broadcast, scatter, gather.

The autograd functions around them are PyTorch's own Python, so gradients reduce to their source as
on CUDA; here only data moves, chunk for chunk and in the order of the C++ code.
"""

from collections.abc import Sequence
from typing import Any

import torch

from samedevice.virtual.errors import invalid_ordinal
from samedevice.virtual.patches import Patches
from samedevice.virtual.refusal import Refusal
from samedevice.virtual.tags import device_index, device_name


def install(patches: Patches, engine: Any) -> None:
    """Provide the communication entry points on virtual GPUs."""
    machine = engine.machine

    def gpu(index: int) -> torch.device:
        if not 0 <= index < machine.count:
            raise invalid_ordinal()
        return torch.device("cuda", index)

    def copy_to(tensor: torch.Tensor, index: int) -> torch.Tensor:
        return tensor.to(gpu(index))

    def broadcast(tensor: torch.Tensor, devices: Sequence[int]) -> list[torch.Tensor]:
        return [copy_to(tensor, index) for index in devices]

    def broadcast_out(tensor: torch.Tensor, outs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        for position, out in enumerate(outs):
            if not out.is_cuda:
                raise RuntimeError(
                    f"Expected all output tensors to be CUDA tensors, but output tensor at index {position} "
                    f"has device '{out.device}'"
                )
            if out.shape != tensor.shape:
                raise RuntimeError(
                    "Expected all output tensors to have same shape as the source tensor "
                    f"{list(tensor.shape)}, but output tensor at index {position} has shape {list(out.shape)}"
                )
            out.copy_(tensor)
        return list(outs)

    def broadcast_coalesced(
        tensors: Sequence[torch.Tensor], devices: Sequence[int], buffer_size: int
    ) -> list[list[torch.Tensor]]:
        first = gpu(devices[0])
        if any(tensor.device != first for tensor in tensors):
            raise RuntimeError("All tensors must be on devices[0]: " + str(devices[0]))
        rows = [list(tensors)]
        for index in devices[1:]:
            # detached, as the C++ copies are: each has a version counter of its own
            rows.append([tensor.detach().to(gpu(index), copy=True) for tensor in tensors])
        return rows

    def scatter(
        tensor: torch.Tensor,
        devices: Sequence[int],
        chunk_sizes: Sequence[int] | None = None,
        dim: int = 0,
        streams: Any = None,
    ) -> tuple[torch.Tensor, ...]:
        if not devices:
            raise RuntimeError("Expected at least one device to scatter to")
        if chunk_sizes is None:
            chunks = tensor.chunk(len(devices), dim)
        else:
            if len(chunk_sizes) != len(devices):
                raise RuntimeError(
                    "Expected devices and chunk_sizes to be of same length, but got "
                    f"len(devices) = {len(devices)} and len(chunk_sizes) = {len(chunk_sizes)}"
                )
            chunks = tensor.split(list(chunk_sizes), dim)
        return tuple(copy_to(chunk, index) for chunk, index in zip(chunks, devices, strict=False))

    def scatter_out(
        tensor: torch.Tensor, outs: Sequence[torch.Tensor], dim: int = 0, streams: Any = None
    ) -> tuple[torch.Tensor, ...]:
        for position, out in enumerate(outs):
            if not out.is_cuda:
                raise RuntimeError(
                    f"Expected all output tensors to be CUDA tensors, but output tensor at index {position} "
                    f"has device '{out.device}'"
                )
        chunks = tensor.split([out.shape[dim] for out in outs], dim)
        for out, chunk in zip(outs, chunks, strict=True):
            out.copy_(chunk)
        return tuple(outs)

    def check(tensors: Sequence[torch.Tensor], quote: str = "") -> None:
        for position, tensor in enumerate(tensors):
            if not tensor.is_cuda:
                raise RuntimeError(
                    f"Expected all input tensors to be CUDA tensors, but tensor at index {position} "
                    f"has device {quote}{tensor.device}{quote}"
                )

    def gather(tensors: Sequence[torch.Tensor], dim: int, destination: int | None = None) -> torch.Tensor:
        if not tensors:
            raise RuntimeError("Expected at least one tensor to gather from")
        check(tensors)
        if destination is None:
            destination = machine.current
        where = torch.device("cpu") if destination < 0 else gpu(destination)
        return torch.cat([tensor.to(where) for tensor in tensors], dim)

    def gather_out(tensors: Sequence[torch.Tensor], out: torch.Tensor, dim: int) -> torch.Tensor:
        check(tensors, "'")
        gathered = torch.cat([tensor.to(out.device) for tensor in tensors], dim)
        if gathered.shape != out.shape:
            raise RuntimeError(
                f"Expected out tensor to have shape {list(gathered.shape)}, but got {list(out.shape)}"
            )
        return out.copy_(gathered)

    entry_points: dict[str, Any] = {
        "_broadcast": broadcast,
        "_broadcast_out": broadcast_out,
        "_broadcast_coalesced": broadcast_coalesced,
        "_scatter": scatter,
        "_scatter_out": scatter_out,
        "_gather": gather,
        "_gather_out": gather_out,
    }
    for name, function in entry_points.items():
        patches.set(torch._C, name, function)
    # NCCL would add the same numbers in an order of its own; PyTorch's fallback adds GPU by GPU.
    patches.set(torch.cuda.nccl, "is_available", lambda tensors: False)
    patches.set(torch.nn.parallel._functions, "_streams", None)
    _watch_source(patches, engine)


def _watch_source(patches: Patches, engine: Any) -> None:
    """Let `DataParallel`'s own check of its source device be a refusal like any other."""
    parallel = torch.nn.DataParallel
    original = parallel.forward

    def forward(self: Any, *inputs: Any, **kwargs: Any) -> Any:
        if engine.active and self.device_ids:
            _check_source(engine, self.module, self.device_ids[0])
        return original(self, *inputs, **kwargs)

    forward.__wrapped__ = original  # type: ignore[attr-defined]
    patches.set(parallel, "forward", forward)


def _check_source(engine: Any, module: Any, source: int) -> None:
    tensors = [*module.named_parameters(), *module.named_buffers()]
    with torch._C.DisableTorchFunction():
        strays = [(name, t) for name, t in tensors if device_index(t) != source]
        if not strays:
            return
        name, first = strays[0]
        found = device_index(first)
        text = (
            "module must have its parameters and buffers "
            f"on device {device_name(source)} (device_ids[0]) but found one of "
            f"them on device: {device_name(found)}"
        )
        engine.refuse(Refusal(RuntimeError, text, "data-parallel", ((name, first, found),), source, 0))
        for _, tensor in strays:
            engine.settle(tensor, source)
