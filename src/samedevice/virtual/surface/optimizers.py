"""What optimizers ask of C++: the groups of tensors that one fused or foreach call may take."""

import functools
import importlib
from collections.abc import Callable
from typing import Any

import torch

from samedevice.virtual.devices import device_object
from samedevice.virtual.patches import Patches
from samedevice.virtual.refusal import Refusal
from samedevice.virtual.tags import CPU

#: Their foreach variants round otherwise than the loop that they run on the CPU: the numbers of a run are
#: the CPU's, so the loop runs here as well unless the program asks for `foreach=True`.
_ROUND_OTHERWISE = ("torch.optim.asgd", "torch.optim.nadam", "torch.optim.radam")

#: `step` tensors may stay on the CPU in these
_STEP_DTYPES = (torch.float32, torch.float64)


def install(patches: Patches, engine: Any) -> None:
    """Group by the virtual device."""
    real: Any = torch._C._group_tensors_by_device_and_dtype
    words: list[str] = []

    def mismatch(tensor: Any, first: int, other: Any, device: int) -> Refusal:
        if not words:
            try:
                real([[torch.empty(1)], [torch.empty(1, dtype=torch.int8)]], False)
            except RuntimeError as error:
                words.append(str(error))
        operands = (("self", tensor, first), ("other", other, device))
        return Refusal(RuntimeError, words[0] if words else "", "foreach", operands, first, 1)

    def group(nested: Any, with_indices: bool = False) -> Any:
        found: dict[Any, Any] = {}
        with torch._C.DisableTorchFunction():
            for (_, dtype), (lists, indices) in real(nested, True).items():
                for position, index in enumerate(indices):
                    first = engine.device_of(lists[0][position])
                    for tensors in lists[1:]:
                        other = tensors[position] if tensors else None
                        if other is None:
                            continue
                        device = engine.device_of(other)
                        if device != first and not (device == CPU and other.dtype in _STEP_DTYPES):
                            engine.refuse(mismatch(lists[0][position], first, other, device))
                            engine.settle(other, first)
                    key = (device_object(first), dtype)
                    if key not in found:
                        found[key] = ([[] for _ in lists], [])
                    for into, tensors in zip(found[key][0], lists, strict=True):
                        if tensors:
                            into.append(tensors[position])
                    if with_indices:
                        found[key][1].append(index)
        return found

    patches.set(torch._C, "_group_tensors_by_device_and_dtype", group)

    def in_a_loop(params: Any, differentiable: bool, use_fused: bool = False) -> tuple[bool, bool]:
        return False, False

    for module in _ROUND_OTHERWISE:
        patches.set(importlib.import_module(module), "_default_to_fused_or_foreach", in_a_loop)
    averages = torch.optim.swa_utils
    foreach_devices = averages._get_foreach_kernels_supported_devices
    patches.set(
        averages,
        "_get_foreach_kernels_supported_devices",
        lambda: [device for device in foreach_devices() if device != "cuda"],
    )
    for name in ("_fused_adam_", "_fused_adamw_"):
        patches.set(torch, name, _with_narrow_moments(engine, getattr(torch, name)))


def _with_narrow_moments(engine: Any, real: Callable[..., Any]) -> Callable[..., Any]:
    """CUDA's kernel computes float32 parameters with moments kept in bfloat16, which the CPU's refuses."""

    @functools.wraps(real)
    def call(*args: Any, **kwargs: Any) -> Any:
        # parameters, gradients, two moments, the greatest second moment (empty without amsgrad), steps
        if not engine.active or len(args) != 6 or not (args[0] and args[2]):
            return real(*args, **kwargs)
        if args[0][0].dtype is not torch.float32 or args[2][0].dtype is not torch.bfloat16:
            return real(*args, **kwargs)
        if engine.device_of(args[0][0]) == CPU:
            return real(*args, **kwargs)
        # one parameter at a time: copies of all the moments could be more than the GPU's memory
        for position in range(len(args[0])):
            one = [tensors[position : position + 1] for tensors in args]
            wide = [[tensor.float() for tensor in tensors] for tensors in one[2:5]]
            real(*one[:2], *wide, one[5], **kwargs)
            for tensors, results in zip(one[2:5], wide, strict=True):
                for tensor, result in zip(tensors, results, strict=True):
                    tensor.copy_(result)
        return None

    return call
