"""TensorIterator's own comparison of devices (`TensorIteratorBase::compute_types`).

It comes after the shapes: where they do not fit, the operator's own error stands.
"""

from collections.abc import Sequence
from typing import Final

from samedevice.virtual.check import wording
from samedevice.virtual.check.calls import Call, Operand, first_device
from samedevice.virtual.refusal import Refusal
from samedevice.virtual.tags import CPU

#: operators whose iterator accepts one 0-dim CPU input next to CUDA operands (`allow_cpu_scalars`)
CPU_SCALARS: Final = frozenset(
    """
    add addcmul allclose and arctan2 atan2 bitwise_and bitwise_left_shift bitwise_or
    bitwise_right_shift bitwise_xor clamp_max clamp_min copysign dist div divide eq float_power
    floor_divide fmax fmin fmod ge gt heaviside hypot iand ilshift ior irshift isclose ixor ldexp le
    lerp logical_and logical_or logical_xor lshift lt max maximum min minimum mul multiply ne or pow
    remainder rshift rsub special_chebyshev_polynomial_t special_chebyshev_polynomial_u
    special_chebyshev_polynomial_v special_chebyshev_polynomial_w special_hermite_polynomial_h
    special_hermite_polynomial_he special_laguerre_polynomial_l special_legendre_polynomial_p
    special_shifted_chebyshev_polynomial_t special_shifted_chebyshev_polynomial_u
    special_shifted_chebyshev_polynomial_v special_shifted_chebyshev_polynomial_w special_xlog1py
    special_xlogy special_zeta sub subtract true_divide xlogy xor
    """.split()
)


def plain_name(base: str) -> str:
    """ "add" for "add_", "iand" for "__iand__"."""
    return base.strip("_")


def broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """The common shape, None where there is none."""
    result: list[int] = []
    for shape in shapes:
        if len(shape) > len(result):
            result = [1] * (len(shape) - len(result)) + result
        for position in range(1, len(shape) + 1):
            size, known = shape[-position], result[-position]
            if size == known or size == 1:
                continue
            if known != 1:
                return None
            result[-position] = size
    return tuple(result)


def shapes_fit(outputs: Sequence[Operand], inputs: Sequence[Operand]) -> bool:
    """The inputs broadcast, and what is written in place has the resulting shape already."""
    shape = broadcast([operand.shape for operand in inputs])
    if shape is None:
        return False
    return all(operand.keyword or operand.shape == shape for operand in outputs)


def compare(
    call: Call, outputs: Sequence[Operand], inputs: Sequence[Operand], cpu_scalars: bool, shapes: bool = True
) -> Refusal | None:
    """The devices of one iterator over these operands."""
    operands = [*outputs, *inputs]
    common = first_device(operands)
    if common == CPU or all(operand.device == common for operand in operands):
        return None
    if shapes and not shapes_fit(outputs, inputs):
        return None
    scalars = 0
    for position, operand in enumerate(operands):
        if operand.device == common:
            continue
        if cpu_scalars and position >= len(outputs) and operand.is_cpu_scalar:
            if scalars:
                return call.refuse(
                    "cpu-scalars", wording.TOO_MANY_SCALARS, common=common, blamed=_real(operand)
                )
            scalars += 1
            continue
        message = wording.tensor_iterator(common, operand.device)
        return call.refuse("tensor-iterator", message, common=common, blamed=_real(operand))
    return None


def _real(operand: Operand) -> Operand | None:
    return operand if operand.tensor is not None else None


def judge(call: Call) -> Refusal | None:
    inputs = call.inputs()
    plain = plain_name(call.base)
    if plain in _COMPARISONS and ".Scalar" in call.name:
        return compare(call, call.outputs(), [*inputs, _number()], True)
    return compare(call, call.outputs(), inputs, len(inputs) > 1 and plain in CPU_SCALARS)


#: their overloads for numbers build the same binary iterator, with the number as a CPU scalar
_COMPARISONS: Final = frozenset(["eq", "ne", "lt", "le", "gt", "ge"])


def _number() -> Operand:
    return Operand("other", None, CPU)


def judge_with_number(call: Call) -> Refusal | None:
    """Binary operators that wrap a number as a CPU scalar and go on with their tensor overload."""
    inputs = call.inputs()
    if len(inputs) == 1:
        inputs = [*inputs, _number()]
    return compare(call, call.outputs(), inputs, True)


def judge_smooth_l1(call: Call) -> Refusal | None:
    """The iterator lets one CPU scalar pass, the kernel does not."""
    inputs = call.inputs()
    refusal = compare(call, call.outputs(), inputs, True)
    return refusal if refusal is not None else kernel_assertion(call, inputs)


def judge_into_self_device(call: Call) -> Refusal | None:
    """The result is made where the first input is, before the iterator is built (logical_and, …)."""
    inputs = call.inputs()
    outputs = call.outputs() or [Operand.like(inputs[0])]
    if not call.outputs():
        outputs[0].keyword = True
    return compare(call, outputs, inputs, True)


def judge_rsub(call: Call) -> Refusal | None:
    """A subtraction with its operands in the other order."""
    return compare(call, call.outputs(), call.inputs()[::-1], True)


def judge_mse_loss(call: Call) -> Refusal | None:
    """No allowance for CPU scalars; two scalars are named in the call's order."""
    inputs = call.inputs()
    if len(inputs) == 2 and not call.outputs() and not inputs[0].dim and not inputs[1].dim:
        message = wording.tensor_iterator(inputs[0].device, inputs[1].device)
        return call.refuse("tensor-iterator", message, common=first_device(inputs), blamed=inputs[1])
    return compare(call, call.outputs(), inputs, False)


def judge_addcmul(call: Call) -> Refusal | None:
    inputs = call.inputs()
    refusal = compare(call, call.outputs(), inputs, True)
    if refusal is not None or first_device(inputs) == CPU:
        return refusal
    if not shapes_fit(call.outputs(), inputs):
        return None
    common = first_device(inputs)
    for operand in inputs[:2]:
        if not operand.is_cpu_scalar:
            continue
        message = f"CPU Scalar support for {operand.name} argument is not supported when calling addcmul on CUDA tensors."
        if operand.name == "tensor1":
            message += (
                " However, CPU Scalar support for tensor2 is supported, please swap your tensor1 and tensor2 "
                "terms."
            )
        return call.refuse("addcmul", message, common=common, blamed=_real(operand))
    return None


def judge_lerp(call: Call) -> Refusal | None:
    """Only `weight` may be a CPU scalar; for the others the kernel's own assertion fails."""
    inputs = call.inputs()
    refusal = compare(call, call.outputs(), inputs, True)
    if refusal is not None or first_device(inputs) == CPU:
        return refusal
    return kernel_assertion(call, inputs[:2])


def kernel_assertion(call: Call, operands: Sequence[Operand], first: int = 1) -> Refusal | None:
    """A CPU scalar that the iterator let pass, and the kernel does not expect."""
    common = first_device(list(call.tensors()))
    if common == CPU or not shapes_fit(call.outputs(), call.inputs()):
        return None
    for number, operand in enumerate(operands, first):
        if operand.is_cpu_scalar:
            return call.refuse(
                "tensor-iterator", wording.loops_assert(number), common=common, blamed=_real(operand)
            )
    return None


def judge_where(call: Call) -> Refusal | None:
    """0-dim operands follow to the common device first, any number of them."""
    inputs = call.inputs()
    target = first_device(inputs)
    moved = [
        operand if operand.dim or target == CPU else Operand(operand.name, None, target) for operand in inputs
    ]
    return compare(call, call.outputs(), moved, False)
