"""Element types that the CPU's kernels take and CUDA's refuse: norms of a half-precision input."""

from typing import TYPE_CHECKING, Any, Final

import torch

from samedevice.virtual.check import wording
from samedevice.virtual.refusal import Refusal
from samedevice.virtual.tags import device_index

if TYPE_CHECKING:
    from samedevice.virtual.engine import Engine

_Tensor: Final = torch.Tensor

#: their parameters follow the input and the shape
NORMS: Final = (torch.layer_norm, torch.group_norm)


def judge_norm(engine: "Engine", args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """On CUDA weight and bias are read as elements of the input's type.

    Raises:
        RuntimeError: they are of another type (`on_mismatch="raise"`).
    """
    given = args[0] if args else kwargs.get("input")
    if not isinstance(given, _Tensor) or torch.is_autocast_enabled("cuda"):
        return
    parameters = (
        args[2] if len(args) > 2 else kwargs.get("weight"),
        args[3] if len(args) > 3 else kwargs.get("bias"),
    )
    for name, parameter in zip(("weight", "bias"), parameters, strict=True):
        if not isinstance(parameter, _Tensor) or parameter.dtype is given.dtype:
            continue
        with torch._C.DisableTorchFunction():
            device = device_index(given)
            if device < 0 or device_index(parameter) != device:
                return
            message = f"expected scalar type {wording.scalar_name(given)} but found {wording.scalar_name(parameter)}"
            operands = (("input", given, device), (name, parameter, device))
            engine.refuse(Refusal(RuntimeError, message, "dtype", operands, device))
        return
