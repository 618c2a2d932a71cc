"""Functions with a device check and words of their own."""

from typing import Any

import torch

from samedevice.virtual.check import composites, exact, wording
from samedevice.virtual.check.calls import Call, Operand, Where, first_device
from samedevice.virtual.check.tensor_iterator import broadcast
from samedevice.virtual.refusal import Refusal
from samedevice.virtual.tags import CPU, META, UNSETTLED, device_name


def _differs(call: Call, name: str, other: str) -> tuple[Operand, Operand] | None:
    """The two operands, when both are there and on different devices."""
    left, right = call.one(name), call.one(other)
    if left is None or right is None or left.device == right.device:
        return None
    return left, right


def judge_inner(call: Call) -> Refusal | None:
    left = call.one("self")
    if left is None:
        return None
    expected = wording.device_type(left.device)
    for operand in (call.one("out"), call.one("other")):
        if operand is None or wording.device_type(operand.device) == expected:
            continue
        message = (
            f"Expected tensor to have {expected} DeviceType, but got tensor with "
            f"{wording.device_type(operand.device)} DeviceType (while checking arguments for inner())"
        )
        return call.refuse("inner", message, common=left.device, blamed=operand)
    other, out = call.one("other"), call.one("out")
    if out is not None and other is not None and left.dim and other.dim:
        return _product_into(call, left, other, out)
    return None


def judge_take_along_dim(call: Call) -> Refusal | None:
    left = call.one("self")
    if left is None:
        return None
    for operand in (call.one("out"), call.one("indices")):
        if operand is None or operand.device == left.device:
            continue
        message = (
            f"Expected tensor to have {device_name(left.device)} Device, but got tensor with "
            f"{device_name(operand.device)} Device (while checking arguments for torch.take_along_dim():)"
        )
        return call.refuse("take-along-dim", message, common=left.device, blamed=operand)
    return None


def judge_quantile(call: Call) -> Refusal | None:
    for name in ("q", "out"):
        pair = _differs(call, "self", name)
        if pair is not None:
            message = f"quantile() {name} tensor must be on the same device as the input tensor"
            return call.refuse("quantile", message, common=pair[0].device, blamed=pair[1])
    return None


def judge_window(call: Call) -> Refusal | None:
    pair = _differs(call, "self", "window")
    if pair is None:
        return None
    left, right = pair
    message = (
        f"{call.base} input and window must be on the same device but got self on "
        f"{device_name(left.device)} and window on {device_name(right.device)}"
    )
    return call.refuse("stft", message, common=left.device, blamed=right)


def judge_gradient(call: Call) -> Refusal | None:
    source = call.one("self")
    if source is None:
        return None
    for operand in call.many("spacing"):
        if operand.device != source.device:
            message = (
                "torch.gradient expected each tensor to be on the same device, but got devices "
                f"{device_name(source.device)} and {device_name(operand.device)}!"
            )
            return call.refuse("gradient", message, common=source.device, blamed=operand)
    return None


def judge_meshgrid(call: Call) -> Refusal | None:
    tensors = call.many("tensors")
    for operand in tensors[1:]:
        if operand.device != tensors[0].device:
            message = "meshgrid expects all tensors to have the same device"
            return call.refuse("meshgrid", message, common=first_device(tensors), blamed=operand)
    return None


def judge_nested(call: Call) -> Refusal | None:
    """The elements are joined, without a move to each other."""
    return exact.judge_as(call, [*call.many("tensors")], "wrapper_CUDA_cat")


def judge_multi_dot(call: Call) -> Refusal | None:
    tensors, out = call.many("tensors"), call.one("out")
    if not tensors:
        return None
    first = tensors[0].device
    for number, operand in enumerate(tensors):
        if operand.device != first:
            message = (
                "multi_dot(): all tensors must be on the same device but tensor 0 is on "
                f"{device_name(first)} and tensor {number} on {device_name(operand.device)}"
            )
            return call.refuse("multi-dot", message, common=first, blamed=operand)
    if out is not None and out.device != first:
        message = (
            f"multi_dot(): expected out tensor to be on device {device_name(first)} but got "
            f"{device_name(out.device)}"
        )
        return call.refuse("out-device", message, common=first, blamed=out)
    return None


def _same_as_input(call: Call, where: str, what: str, source: Operand, operand: Operand) -> Refusal:
    message = (
        f"{where}: Expected {what} and input tensors to be on the same device, but got {what} on "
        f"{device_name(operand.device)} and input on {device_name(source.device)}"
    )
    return call.refuse("same-as-input", message, common=source.device, blamed=operand)


def judge_matrix_rank(call: Call) -> Refusal | None:
    source = call.one("self")
    if source is None:
        return None
    for name, what in (("out", "result"), ("atol", "atol"), ("rtol", "rtol"), ("tol", "tol")):
        operand = call.one(name)
        if operand is not None and operand.device != source.device:
            return _same_as_input(call, "torch.linalg.matrix_rank", what, source, operand)
    return None


def judge_result_device(call: Call) -> Refusal | None:
    """`out=` of composite functions that compare it with their input."""
    source, out = call.one("self"), call.one("out")
    if source is None or out is None or out.device == source.device:
        return None
    other = call.one("y")
    if other is not None and other.device != source.device:
        return None
    if call.base.endswith("matrix_power"):
        return _same_as_input(call, "matrix_power", "result", source, out)
    # these pass the two the wrong way round: each is said to be where the other is
    message = (
        f"{call.base}: Expected result and input tensors to be on the same device, but got result on "
        f"{device_name(source.device)} and input on {device_name(out.device)}"
    )
    return call.refuse("same-as-input", message, common=source.device, blamed=out)


def judge_ndtr(call: Call) -> Refusal | None:
    return composites.judge_ndtr_out(call)


def judge_tensordot(call: Call) -> Refusal | None:
    left, right, out = call.one("self"), call.one("other"), call.one("out")
    if left is None or right is None or out is None:
        return None
    return _product_into(call, left, right, out)


def _product_into(call: Call, left: Operand, right: Operand, out: Operand) -> Refusal | None:
    """The product is computed first, then compared with where it is to go."""
    if left.device != right.device or left.device == out.device:
        return None
    message = (
        "tensordot: Expected the output and input tensors to be on the same device, but got the output "
        f"tensor on {device_name(out.device)}, input tensor a on {device_name(left.device)}, and input "
        f"tensor b on {device_name(right.device)}"
    )
    return call.refuse("out-device", message, common=left.device, blamed=out)


def judge_diff(call: Call) -> Refusal | None:
    source, out = call.one("self"), call.one("out")
    if source is None or out is None or out.device == source.device:
        return None
    if any(operand.device != source.device for operand in call.inputs()):
        return None
    return composites.judge_expected_device(call)


def judge_cosine_similarity(call: Call) -> Refusal | None:
    """The smallest norm is a tensor where `x1` is; the norm of `x2` meets it."""
    first, second = call.one("x1"), call.one("x2")
    if first is None or second is None or broadcast([first.shape, second.shape]) is None:
        return None
    return exact.judge_as(call, [second, first], "wrapper_CUDA_clamp_min__Tensor", ("self", "min"))


def judge_rms_norm(call: Call) -> Refusal | None:
    operands: list[Operand | None] = [call.one("input"), call.one("weight")]
    return exact.judge_as(call, operands, "wrapper_CUDA___fused_rms_norm", ("input", "weight"))


def judge_weight_norm(call: Call) -> Refusal | None:
    pair = _differs(call, "v", "g")
    if pair is None:
        return None
    left, right = pair
    message = (
        "weight_norm: expected v_in and g_in to be on the same device, but v_in is on "
        f"{device_name(left.device)} and g_in is on {device_name(right.device)}"
    )
    return call.refuse("weight-norm", message, common=left.device, blamed=right)


def judge_native_batch_norm(call: Call) -> Refusal | None:
    operands: list[Operand | None] = [*call.tensors()]
    if any(operand is not None and operand.written for operand in operands):
        return None
    return exact.judge_as(call, operands, "wrapper_CUDA__native_batch_norm")


def judge_bilinear(call: Call) -> Refusal | None:
    """Two batched products: with the weight, then with the second input."""
    operands = [call.one("input1"), call.one("weight"), call.one("input2")]
    return exact.judge_as(call, operands, "wrapper_CUDA_bmm", ("self", "mat2", "mat2"))


def judge_tensor_split(call: Call) -> Refusal | None:
    indices = call.one("tensor_indices_or_sections")
    if indices is None or indices.device == CPU or call.one("self") is None:
        return None
    message = (
        "tensor_split expected tensor_indices_or_sections to be on cpu, but it's on "
        f"{device_name(indices.device)}"
    )
    return call.refuse("tensor-split", message, common=CPU, blamed=indices)


def judge_pin_memory(call: Call) -> Refusal | None:
    return composites.judge_pinning(call)


def judge_factory(args: Any, kwargs: dict[str, Any], where: Where) -> Refusal | None:
    """`device=` next to an `out=` of another type."""
    out, device = kwargs.get("out"), kwargs.get("device")
    if not isinstance(out, torch.Tensor) or device is None:
        return None
    found = where(out)
    if found in (META, UNSETTLED):
        return None
    wanted = torch.device(device).type
    if wanted == wording.device_type(found):
        return None
    message = (
        f"device type {wanted} does not match device type of out parameter ({wording.device_type(found)})"
    )
    return Refusal(RuntimeError, message, "factory-out", (("out", out, found),), found, 0)
