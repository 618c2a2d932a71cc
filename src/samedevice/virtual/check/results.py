"""Where the results of an accepted call are, when its operands' devices differ."""

from typing import Any, Final

import torch

from samedevice.virtual.check.calls import Call, Where
from samedevice.virtual.check.calls import common_device as common_device_of
from samedevice.virtual.check.plans import RESULT_ON_SELF, plan_of
from samedevice.virtual.tags import CPU


def result_device(func: Any, args: Any, kwargs: Any, where: Where) -> int | tuple[int, ...] | None:
    signature = plan_of(func).signature
    base = signature.base.removesuffix("_")
    if base == "_pack_padded_sequence":
        return where(args[0]), CPU
    if base.startswith("_foreach_"):
        lists = [
            value for value in args if isinstance(value, (list, tuple)) and value and hasattr(value[0], "dim")
        ]
        if not lists:
            return None
        return tuple(
            common_device_of([where(tensor) for tensor in group]) for group in zip(*lists, strict=False)
        )
    if base in RESULT_ON_SELF:
        call = Call.of(signature, args, kwargs, where)
        first = next(call.tensors(), None)
        return first.device if first is not None else None
    return None


#: what C++ makes inside these is where the first tensor is, whatever the others say
_FIRST_LEADS: Final = frozenset(
    {torch.Tensor.__getitem__, torch.Tensor.__setitem__, torch._C._nn.pad_sequence}
)

#: tensors given to these stand for numbers
NUMBERS_FROM_TENSORS: Final = frozenset(
    {torch.full, torch.arange, torch.linspace, torch.logspace, torch.range, torch.eye, torch.randint}
)


def inner_device(func: Any, tensors: list[Any], where: Where) -> int:
    """Where a tensor is that C++ makes inside a call of `func` on these tensors, naming no device."""
    if func in NUMBERS_FROM_TENSORS:
        return CPU
    if func in _FIRST_LEADS:
        return where(tensors[0])
    return common_device_of([where(tensor) for tensor in tensors])
