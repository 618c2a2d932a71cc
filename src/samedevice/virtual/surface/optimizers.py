"""What optimizers ask of C++: the groups of tensors that one fused or foreach call may take."""

import importlib
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
