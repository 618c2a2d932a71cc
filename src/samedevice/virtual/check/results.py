"""Where the results of an accepted call are, when its operands' devices differ."""

from typing import Any

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
