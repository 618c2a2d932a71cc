"""What a device argument means: strings, integers and `torch.device`s to a virtual GPU's index."""

from typing import Any, Final

import torch

from samedevice.virtual.machine import Machine
from samedevice.virtual.tags import CPU, META

#: what C++ is told instead of "cuda"
REAL_CPU: Final = torch.device("cpu")
REAL_META: Final = torch.device("meta")

_objects: dict[int, torch.device] = {CPU: REAL_CPU, META: REAL_META}

#: the lines that CUDA adds to every error of its own
CUDA_TAIL: Final = (
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\n"
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
)


def device_object(index: int) -> torch.device:
    """The `torch.device` of an index; the same object each time."""
    found = _objects.get(index)
    if found is None:
        found = _objects[index] = torch.device("cuda", index) if index >= 0 else REAL_CPU
    return found


def invalid_ordinal() -> BaseException:
    """What CUDA raises for a GPU that is not there."""
    error = getattr(torch, "AcceleratorError", RuntimeError)
    hint = "GPU device may be out of range, do you have enough GPUs?\n"
    return error(f"CUDA error: invalid device ordinal\n{hint}{CUDA_TAIL}")


def bad_fork() -> BaseException:
    """What PyTorch raises for CUDA work in a process forked after CUDA was used."""
    return RuntimeError(
        "Cannot re-initialize CUDA in forked subprocess. To use CUDA with "
        "multiprocessing, you must use the 'spawn' start method"
    )


def use_gpu(machine: Machine, index: int) -> int:
    """Check that the GPU exists and may be used in this process; returns its index.

    Raises:
        torch.AcceleratorError: there is no such GPU.
        RuntimeError: CUDA was used before this process was forked.
    """
    if machine.in_forked_child:
        raise bad_fork()
    machine.initialized = True
    if not 0 <= index < machine.count:
        raise invalid_ordinal()
    return index


def resolve(spec: Any, machine: Machine) -> "int | torch.device":
    """The index that a device argument names: CPU, META or a virtual GPU's index.

    Other devices ("xpu", "mps", …) come back as the `torch.device` they are; real PyTorch deals
    with them. "cuda" without an index is the thread's current device; a plain integer is a GPU.

    Raises:
        torch.AcceleratorError: there is no such GPU.
        RuntimeError, TypeError: the argument is no device (PyTorch's own error).
    """
    if spec.__class__ is int:
        return use_gpu(machine, spec)
    device = spec if spec.__class__ is torch.device else torch.device(spec)
    kind = device.type
    if kind == "cuda":
        index = device.index
        return use_gpu(machine, machine.current if index is None else index)
    if kind == "cpu":
        return CPU
    if kind == "meta":
        return META
    return device
