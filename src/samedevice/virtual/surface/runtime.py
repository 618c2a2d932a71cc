"""The CUDA runtime and NVTX modules, as far as Python programs call them."""

import enum
import types
from typing import Any

import torch

from samedevice.virtual.errors import invalid_ordinal
from samedevice.virtual.machine import Machine
from samedevice.virtual.patches import Patches


class cudaError(enum.IntEnum):  # noqa: N801 - the runtime's own name
    success = 0


def install(patches: Patches, machine: Machine) -> None:
    """`torch.cuda.cudart()` and `torch.cuda.nvtx` that have nobody to talk to."""

    def mem_get_info(index: int) -> tuple[int, int]:
        if not 0 <= index < machine.count:
            raise invalid_ordinal()
        memory = machine.memories[index]
        return memory.total - max(memory.reserved, memory.allocated), memory.total

    runtime: Any = types.ModuleType("torch._C._cudart")
    runtime.cudaError = cudaError
    runtime.cudaGetErrorString = lambda error: "no error" if int(error) == 0 else "unknown error"
    runtime.cudaMemGetInfo = mem_get_info
    for name in (
        "ProfilerStart",
        "ProfilerStop",
        "HostRegister",
        "HostUnregister",
        "StreamDestroy",
        "StreamCreate",
    ):
        setattr(runtime, f"cuda{name}", lambda *arguments: cudaError.success)
    patches.set(torch._C, "_cudart", runtime)
    patches.set(torch.cuda, "_cudart", runtime)

    depths: list[str] = []
    handles = iter(range(1, 1 << 62))

    def push(message: str) -> int:
        depths.append(message)
        return len(depths) - 1

    def pop() -> int:
        if depths:
            depths.pop()
        return len(depths) - 1

    tools: Any = types.ModuleType("torch._C._nvtx")
    tools.rangePushA = push
    tools.rangePop = pop
    tools.rangeStartA = lambda message: next(handles)
    tools.rangeEnd = lambda handle: None
    tools.markA = lambda message: None
    tools.deviceRangeStart = lambda message, stream: next(handles)
    tools.deviceRangeEnd = lambda handle, stream: None
    patches.set(torch._C, "_nvtx", tools)
    patches.set(torch.cuda.nvtx, "_nvtx", tools)
