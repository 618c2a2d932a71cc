"""The device rules: would CUDA refuse this call, and in which words?

Pure judgement: nothing here changes a tensor or knows a mode. Devices are the integers of
`samedevice.virtual.tags`; `where(tensor)` tells where one is.
"""

from typing import Any

import torch

from samedevice.virtual.check import functions, meta, plans, results, wording
from samedevice.virtual.check.calls import Call, Where
from samedevice.virtual.check.calls import common_device as _common_device
from samedevice.virtual.check.plans import plan_of
from samedevice.virtual.check.results import inner_device
from samedevice.virtual.refusal import Refusal
from samedevice.virtual.tags import CPU, META, UNSETTLED

__all__ = [
    "always_check",
    "check_function",
    "check_generator",
    "check_op",
    "common_device",
    "inner_device",
    "result_device",
]

_Tensor = torch.Tensor
_plans = plans._plans


def check_op(func: Any, args: Any, kwargs: Any, where: Where) -> Refusal | None:
    """Judge a call at the dispatcher, where composite functions are taken apart already."""
    plan = _plans.get(func) or plan_of(func)
    judge = plan.judge
    if judge is None and not plan.tensors:
        return None
    if not plan.always and not _mixed(args, kwargs, where):
        return None
    call = Call.of(plan.signature, args, kwargs, where)
    devices = call.devices()
    if META in devices:
        return meta.judge(call, func, args, kwargs) if len(devices) > 1 else None
    if judge is None:
        return None
    if not plan.always and len(devices) < 2:
        return None
    return judge(call)


def _mixed(args: Any, kwargs: Any, where: Where) -> bool:
    first = UNSETTLED
    for value in args if not kwargs else (*args, *kwargs.values()):
        kind = value.__class__
        if kind is list or kind is tuple:
            for element in value:
                if isinstance(element, _Tensor):
                    device = where(element)
                    if device != first and device != UNSETTLED:
                        if first != UNSETTLED:
                            return True
                        first = device
        elif isinstance(value, _Tensor):
            device = where(value)
            if device != first and device != UNSETTLED:
                if first != UNSETTLED:
                    return True
                first = device
    return False


def check_function(func: Any, args: Any, kwargs: Any, where: Where) -> Refusal | None:
    """Judge a call at the level of torch's functions: only those with a check of their own there."""
    judge = functions.judge_of(func)
    if judge is None:
        return None
    return judge(args, kwargs or {}, where)


def check_generator(generator_type: str, device_type: str) -> Refusal | None:
    """A generator's device type must be that of the tensor; the index is not compared."""
    if generator_type == device_type:
        return None
    return Refusal(
        RuntimeError,
        wording.generator_type(device_type, generator_type),
        "generator",
        common=0 if device_type == "cuda" else CPU,
    )


def result_device(func: Any, args: Any, kwargs: Any, where: Where) -> int | tuple[int, ...] | None:
    """Where the fresh results of an accepted call are; None: where its operands are in common.

    A tuple gives one device a result (lists of a foreach operator, what stays on the host).
    """
    return results.result_device(func, args, kwargs, where)


def common_device(tensors: Any, where: Where) -> int:
    """Where CUDA puts a result of these tensors: the first that is not on the CPU."""
    return _common_device([where(tensor) for tensor in tensors])


#: looked at even when all operands are on one device: some are refused, some have their results elsewhere
always_check: frozenset[Any] = functions.ALWAYS | results.NUMBERS_FROM_TENSORS | plans.always_ops()
