"""What a device argument means: strings, integers and `torch.device`s to a virtual GPU's index."""

from typing import Any, Final

import torch

from samedevice.virtual.errors import invalid_ordinal
from samedevice.virtual.machine import Machine
from samedevice.virtual.tags import CPU, META

#: what C++ is told instead of "cuda"
REAL_CPU: Final = torch.device("cpu")
REAL_META: Final = torch.device("meta")

_objects: dict[int, torch.device] = {CPU: REAL_CPU, META: REAL_META}


def device_object(index: int) -> torch.device:
    """The `torch.device` of an index; the same object each time."""
    found = _objects.get(index)
    if found is None:
        found = _objects[index] = torch.device("cuda", index) if index >= 0 else REAL_CPU
    return found


def use_gpu(machine: Machine, index: int) -> int:
    """Check that the GPU exists and may be used in this process; returns its index.

    Raises:
        torch.AcceleratorError: there is no such GPU.
        RuntimeError: CUDA was used before this process was forked.
    """
    if not machine.initialized or machine.in_forked_child:
        torch.cuda._lazy_init()  # refuses in a forked child
    if not 0 <= index < machine.count:
        error = invalid_ordinal()
        error.samedevice_asked = index  # type: ignore[attr-defined]  # so that `check` can name the option
        raise error
    return index


def resolve(spec: Any, machine: Machine) -> "int | torch.device":
    """The index that a device argument names: CPU, META or a virtual GPU's index.

    Other devices ("xpu", "mps", …) come back as the `torch.device` they are; real PyTorch deals
    with them. "cuda" without an index is the thread's current device; a plain integer is a GPU.

    Raises:
        torch.AcceleratorError: there is no such GPU.
        RuntimeError, TypeError: the argument is no device (PyTorch's own error).
    """
    if spec.__class__ is int and spec >= 0:
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
