"""Printing a tensor: hundreds of calls into torch, of which one on the CPU needs none watched."""

from typing import Any

import torch
from torch import _tensor_str

from samedevice.virtual.patches import Patches
from samedevice.virtual.tags import CPU, device_index


def install(patches: Patches) -> None:
    """Print tensors of the CPU as torch alone does; those of a GPU name their device."""
    original = _tensor_str._str
    plain = (torch.Tensor, torch.nn.Parameter)

    def printed(self: Any, *, tensor_contents: str | None = None) -> str:
        if type(self) in plain:
            with torch._C.DisableTorchFunction():
                if device_index(self) == CPU:
                    return original(self, tensor_contents=tensor_contents)
        return original(self, tensor_contents=tensor_contents)

    patches.set(_tensor_str, "_str", printed)
