"""Tensors without data next to tensors of a GPU.

PyTorch's own meta kernels decide; they see a CPU tensor where the virtual GPU's is, so the device
in their sentence is put right, and the CPU scalars that they let pass are looked at again.
"""

import re
from typing import Any, Final

from samedevice.virtual.check.calls import Call, Operand
from samedevice.virtual.check.tensor_iterator import CPU_SCALARS, plain_name
from samedevice.virtual.refusal import Refusal
from samedevice.virtual.tags import META, device_name

_SENTENCE: Final = re.compile(r"Tensor on device (\w+) is not on the expected device (\w+)!")

#: element-wise operators besides those with an allowance for CPU scalars
_ELEMENTWISE: Final = CPU_SCALARS | {"where", "clamp", "masked_fill"}


def judge(call: Call, func: Any, args: Any, kwargs: Any) -> Refusal | None:
    """Ask the meta kernel, which computes nothing."""
    on_gpu = [operand for operand in call.tensors() if operand.device >= 0]
    if not on_gpu:
        return None
    try:
        func(*args, **kwargs)
    except Exception as error:
        match = _SENTENCE.search(str(error))
        if match is None:
            return None
        # the tensor with dimensions: those without are let pass
        operand = next((operand for operand in on_gpu if operand.dim), on_gpu[0])
        found, expected = (_put_right(name, operand) for name in match.groups())
        return _refuse(call, found, expected, operand)
    if call.outputs() or any(operand.dim for operand in on_gpu):
        return None
    name = plain_name(call.base).removeprefix("foreach_")
    if name not in _ELEMENTWISE:
        return None
    operands = list(call.tensors())
    if name == "masked_fill":
        operands.reverse()
    first = operands[0].device
    other = next(operand.device for operand in operands if operand.device != first)
    return _refuse(call, device_name(other), device_name(first), on_gpu[0])


def _put_right(name: str, operand: Operand) -> str:
    return device_name(operand.device) if name == "cpu" else name


def _refuse(call: Call, found: str, expected: str, operand: Operand) -> Refusal:
    message = f"Tensor on device {found} is not on the expected device {expected}!"
    blamed = next((other for other in call.tensors() if other.device == META), None)
    return call.refuse("meta", message, common=operand.device, blamed=blamed, recoverable=False)
