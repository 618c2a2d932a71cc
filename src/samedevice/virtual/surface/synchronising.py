"""`torch.cuda.set_sync_debug_mode`: what makes the host wait for a GPU warns or raises, as on CUDA."""

import warnings
from typing import Any, Final

import torch

from samedevice.virtual.patches import Patches
from samedevice.virtual.tags import CPU, device_index

_WARN: Final = 1
_ERROR: Final = 2
_TEXT: Final = "called a synchronizing CUDA operation"

#: operations whose result, or its size, the host must know
READING: Final = frozenset(
    """
    _local_scalar_dense nonzero masked_select equal bincount _unique _unique2 unique_dim unique_dim_consecutive
    unique_consecutive
    """.split()
)
#: operations that look up the places of a mask
INDEXING: Final = frozenset(["index", "index_put", "index_put_", "_index_put_impl_"])
_MASKS: Final = (torch.bool, torch.uint8)


def install(patches: Patches, engine: Any) -> None:
    """Look at every operation on a GPU, and at every transfer, while the mode is on."""
    state = {"mode": 0}

    def waits() -> None:
        if state["mode"] == _ERROR:
            raise RuntimeError(_TEXT)
        warnings.warn(_TEXT, UserWarning, stacklevel=2)

    def operation(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if _synchronises(func, args, kwargs) and not _counted(engine.state.call):
            waits()

    def transfer(source: int, target: int, non_blocking: bool) -> None:
        if CPU in (source, target) and source != target and not non_blocking:
            waits()

    def set_mode(mode: int) -> None:
        state["mode"] = int(mode)
        engine.watch("synchronising", operation if mode else None)
        engine.on_transfer = transfer if mode else None

    patches.set(torch._C, "_cuda_set_sync_debug_mode", set_mode)
    patches.set(torch._C, "_cuda_get_sync_debug_mode", lambda: state["mode"])


def _counted(call: Any) -> bool:
    """In `one_hot` with a number of classes, of which only the CPU's kernel looks at the values."""
    if call is None or call[0] is not torch._C._nn.one_hot:
        return False
    classes = call[1][1] if len(call[1]) > 1 else call[2].get("num_classes", -1)
    return bool(classes >= 0)


def _synchronises(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    name = func._schema.name.partition("::")[2]
    if name in READING:
        return True
    if name in INDEXING:
        return _masked(name, args, kwargs)
    if name == "repeat_interleave":
        return func._schema.overload_name == "Tensor" and kwargs.get("output_size") is None
    if name == "copy_":
        target, source = device_index(args[0]), device_index(args[1])
        non_blocking = args[2] if len(args) > 2 else kwargs.get("non_blocking", False)
        return CPU in (target, source) and target != source and not non_blocking
    return False


def _masked(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """A mask is among the indices, and is not filled with one value from the host; or numbers on the host are."""
    indices = [i for i in args[1] if isinstance(i, torch.Tensor)]
    if device_index(args[0]) >= 0 and any(
        i.dtype not in _MASKS and device_index(i) == CPU and i.dim() for i in indices
    ):
        return True  # numbers that go to the GPU first
    if not any(i.dtype in _MASKS and device_index(i) >= 0 for i in indices):
        return False
    if name == "index" or len(indices) > 1:
        return True
    value = args[2] if len(args) > 2 else kwargs["values"]
    accumulate = args[3] if len(args) > 3 else kwargs.get("accumulate", False)
    return bool(accumulate or value.numel() != 1 or device_index(value) >= 0)
