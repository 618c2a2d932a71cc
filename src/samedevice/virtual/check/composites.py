"""Operators that reach the dispatcher whole and are taken apart inside: what their parts check.

Each is judged by the first check that CUDA's own decomposition meets, in that check's words.
"""

from collections.abc import Sequence
from typing import Final

from samedevice.virtual.check import exact, wording
from samedevice.virtual.check.calls import Call, Operand, first_device
from samedevice.virtual.check.tensor_iterator import compare
from samedevice.virtual.refusal import Refusal
from samedevice.virtual.tags import CPU, device_name

#: operator → (method that checks, its operands in order, their names there); "~self" is a fresh result
#: that is where `self` is
DELEGATES: Final[dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]]] = {
    "embedding": ("wrapper_CUDA__index_select", ("weight", "indices"), ("self", "index")),
    "stack": ("wrapper_CUDA_cat", ("tensors",), ("tensors",)),
    "_stack": ("wrapper_CUDA_cat", ("tensors",), ("tensors",)),
    "_nested_tensor_from_tensor_list": ("wrapper_CUDA_cat", ("list",), ("tensors",)),
    "put": ("wrapper_CUDA__put_", ("self", "index", "source"), ()),
    "masked_scatter": ("wrapper_CUDA__masked_scatter_", ("self", "mask", "source"), ()),
    "linalg_lstsq": ("wrapper_CUDA_out_linalg_lstsq_out", ("self", "b"), ()),
    "complex": ("wrapper_CUDA_out_complex_out", ("real", "imag"), ()),
    "polar": ("wrapper_CUDA_out_polar_out", ("abs", "angle"), ()),
    "huber_loss_backward": (
        "wrapper_CUDA_out_huber_loss_backward_out",
        ("~self", "grad_output", "self", "target"),
        (),
    ),
    "smooth_l1_loss_backward": (
        "wrapper_CUDA_grad_input_smooth_l1_loss_backward_out",
        ("~self", "grad_output", "self", "target"),
        (),
    ),
    "addr_": ("wrapper_CUDA_out_addr_out", ("self", "vec1", "vec2"), ()),
    "stack.out": ("wrapper_CUDA_cat_out_out", ("out", "tensors"), ()),
    "_stack.out": ("wrapper_CUDA_cat_out_out", ("out", "tensors"), ()),
    "softmax.int_out": ("wrapper_CUDA__softmax_out_out", ("out", "self"), ()),
    "log_softmax.int_out": ("wrapper_CUDA__log_softmax_out_out", ("out", "self"), ()),
    "sort.values": ("wrapper_CUDA_sort_out_values_stable", ("values", "indices", "self"), ()),
    "_trilinear": ("wrapper_CUDA_bmm", ("i1", "i2", "i3"), ("self", "mat2", "mat2")),
}


def judge_delegate(call: Call) -> Refusal | None:
    method, names, inner = DELEGATES[call.name]
    operands: list[Operand | None] = []
    named: list[str] = []
    for position, name in enumerate(names):
        for operand in call.many(name.removeprefix("~")):
            operands.append(Operand.like(operand) if name.startswith("~") else operand)
            named.append(inner[position] if inner else name)
    return exact.judge_as(call, operands, method, tuple(named))


def judge_linear_out(call: Call) -> Refusal | None:
    """A product into `out=`; the bias takes part in it for matrices only."""
    source = call.one("input")
    bias = call.one("bias") if source is not None and source.dim == 2 else None
    method = "wrapper_CUDA_mm_out_out" if bias is None else "wrapper_CUDA_addmm_out_out"
    names = ("out", "self", "mat2") if bias is None else ("out", "self", "mat1", "mat2")
    operands = [call.one("out"), *([] if bias is None else [bias]), call.one("input"), call.one("weight")]
    return exact.judge_as(call, operands, method, names)


def judge_mv(call: Call) -> Refusal | None:
    """`addmv_` on a fresh result that is where the vector is."""
    matrix, vector = call.one("self"), call.one("vec")
    if matrix is None or vector is None:
        return None
    if exact.backend_of(call) == "SparseCUDA":
        return exact.judge_as(call, [matrix, vector], "wrapper_SparseCUDA__mv")
    fresh = call.one("out") or Operand.like(vector)
    method = "wrapper_CUDA_addmv_out_out" if call.signature.is_out else "wrapper_CUDA_addmv_"
    return exact.judge_as(call, [fresh, matrix, vector], method, ("self", "mat", "vec"))


def judge_never(call: Call) -> Refusal | None:
    """Any device goes with any other: copies, shapes taken from another tensor, fills."""
    return None


def judge_output_resized(call: Call) -> Refusal | None:
    """Structured reductions compare the device when they resize `out=`."""
    source = next((operand for operand in call.inputs() if operand.tensor is not None), None)
    if source is None:
        return None
    for out in call.outputs():
        if not out.keyword or out.device == source.device:
            continue
        if source.device == CPU:
            message = "CUDAGuardImpl initialized with non-CUDA DeviceType: cpu"
        else:
            message = expected_out(source.device, out.device)
        return call.refuse("out-device", message, common=source.device, blamed=out)
    return None


def expected_out(device: int, found: int) -> str:
    return f"Expected out tensor to have device {device_name(device)}, but got {device_name(found)} instead"


def judge_expected_device(call: Call) -> Refusal | None:
    """cummax, cummin, logcumsumexp with `out=`: their kernel's own comparison."""
    source = call.one("self")
    if source is None:
        return None
    for out in call.outputs():
        if out.device != source.device:
            message = f"expected device {device_name(source.device)} but found {device_name(out.device)}"
            return call.refuse("out-device", message, common=source.device, blamed=out)
    return None


def judge_unary_reduction(call: Call) -> Refusal | None:
    """max and min over everything, into `out=`."""
    source, out = call.one("self"), call.one("out")
    if source is None or out is None or source.device == out.device:
        return None
    message = wording.expected_true("self.device() == out.device()")
    return call.refuse("out-device", message, common=source.device, blamed=out)


def judge_ndtr_out(call: Call) -> Refusal | None:
    source, out = call.one("self"), call.one("out")
    if source is None or out is None or source.device == out.device:
        return None
    message = wording.tensor_iterator(source.device, out.device)
    return call.refuse("tensor-iterator", message, common=source.device, blamed=out)


def judge_list_out(call: Call) -> Refusal | None:
    """A list of `out=` tensors, each resized and copied to."""
    source = call.one("self")
    if source is None:
        return None
    for out in call.many("out"):
        if out.device != source.device:
            message = expected_out(source.device, out.device)
            return call.refuse("out-device", message, common=source.device, blamed=out)
    return None


def judge_mode_out(call: Call) -> Refusal | None:
    source = call.one("self")
    if source is None:
        return None
    for out, what in zip(call.outputs(), ("values", "indices"), strict=False):
        if out.device != source.device:
            message = (
                f"expected device '{device_name(source.device)}' but got '{device_name(out.device)}' for "
                f"{what} output"
            )
            return call.refuse("out-device", message, common=source.device, blamed=out)
    return None


def judge_dot_out(call: Call) -> Refusal | None:
    first, second, out = call.one("self"), call.one("tensor") or call.one("other"), call.one("out")
    if first is None or second is None:
        return None
    if out is None or first.device == second.device == out.device:
        return None
    message = (
        f"{call.base}: Expected the output and input tensors to be on the same device, but got the output "
        f"tensor on {device_name(out.device)}, the 'input' tensor on {device_name(first.device)}, and the "
        f"'other' tensor on {device_name(second.device)}"
    )
    return call.refuse("out-device", message, common=first.device, blamed=out)


def judge_cholesky_solve(call: Call) -> Refusal | None:
    right, left = call.one("self"), call.one("input2")
    if right is None or left is None or right.device == left.device:
        return None
    message = (
        f"Expected b and A to be on the same device, but found b on {device_name(right.device)} and A on "
        f"{device_name(left.device)} instead."
    )
    return call.refuse("cholesky-solve", message, common=left.device, blamed=right)


def judge_bce_with_logits(call: Call) -> Refusal | None:
    """The steps of its decomposition: products in place on tensors of the target's making."""
    score, target = call.one("self"), call.one("target")
    weight, pos_weight = call.one("weight"), call.one("pos_weight")
    if score is None or target is None or score.shape != target.shape:
        return None
    if pos_weight is not None:
        refusal = compare(call, [], [pos_weight, target], True)
        if refusal is not None:
            return refusal
        log_weight = Operand("", None, first_device([pos_weight, target]), virtual_shape=target.shape)
        refusal = compare(call, [Operand.like(score)], [score, log_weight], True)
        if refusal is not None:
            return refusal
    for left, right in ((target, score), (target, weight)):
        if right is not None:
            refusal = compare(call, [Operand.like(left)], [left, right], True)
            if refusal is not None:
                return refusal
    return None


def judge_bce(call: Call) -> Refusal | None:
    """An iterator over a loss made like the input, whose kernel expects a GPU; then the weight."""
    score, target, weight = call.one("self"), call.one("target"), call.one("weight")
    if score is None or target is None:
        return None
    out = call.one("out")
    loss = (
        Operand.like(score) if out is None else Operand(out.name, None, out.device, virtual_shape=score.shape)
    )
    refusal = compare(call, [loss], [score, target], False)
    if refusal is not None or weight is None:
        return refusal
    if loss.device == CPU and weight.device != CPU:
        return call.refuse("tensor-iterator", wording.loops_assert(0), common=weight.device, blamed=score)
    return compare(call, [loss], [loss, weight], True)


def judge_pinv(call: Call) -> Refusal | None:
    """The tolerances, unsqueezed, meet the singular values."""
    source = call.one("self") or call.one("a")
    for name in ("atol", "rtol"):
        tolerance = call.one(name)
        if source is not None and tolerance is not None:
            refusal = compare(call, [Operand.like(source)], [source, tolerance], False, shapes=False)
            if refusal is not None:
                return refusal
    return None


def judge_no_sparse_kernel(call: Call) -> Refusal | None:
    blamed = next((operand for operand in call.tensors() if operand.device >= 0), None)
    if blamed is None:
        return None
    message = wording.cannot_run(f"aten::{call.name}", "SparseCsrCUDA")
    return call.refuse("host-only", message, common=CPU, blamed=blamed, exception=NotImplementedError)


def judge_block_diag(call: Call) -> Refusal | None:
    tensors = call.many("tensors")
    for number, operand in enumerate(tensors):
        if operand.device != tensors[0].device:
            message = (
                "torch.block_diag: input tensors must all be on the same device. Input 0 is on device "
                f"{device_name(tensors[0].device)} and input {number} is on device {device_name(operand.device)}"
            )
            return call.refuse("block-diag", message, common=tensors[0].device, blamed=operand)
    return None


def judge_euclidean(call: Call) -> Refusal | None:
    """`cdist` by matrix products, which it takes for more than 25 points: a check of its own comes first."""
    left, right = call.one("x1"), call.one("x2")
    if left is None or right is None or left.device == right.device:
        return None
    kinds = wording.device_type(left.device), wording.device_type(right.device)
    if kinds[0] != kinds[1]:
        message = f"X1 and X2 must have the same device type. X1: {kinds[0]} X2: {kinds[1]}"
    else:
        # It prints the indices as characters, and the sentence ends at the first zero.
        message = f"device of X1 ({chr(left.device)}) must match device of X2 ({chr(right.device)})"
        message = message.partition("\0")[0]
    return call.refuse("cdist", message, common=first_device([left, right]), blamed=right)


def judge_soft_margin_backward(call: Call) -> Refusal | None:
    """Its steps: exp(-target * input), a product with the target, one with the gradient."""
    gradient, source, target = call.one("grad_output"), call.one("self"), call.one("target")
    if gradient is None or source is None or target is None:
        return None
    refusal = compare(call, [], [target, source], True)
    if refusal is not None:
        return refusal
    fresh, margin = Operand.like(source), Operand("", None, first_device([target, source]))
    refusal = compare(call, [fresh], [target, margin], True, shapes=False)
    return refusal if refusal is not None else compare(call, [fresh], [fresh, gradient], True, shapes=False)


def judge_set(call: Call) -> Refusal | None:
    written, source = call.one("self"), call.one("source")
    if written is None or source is None or written.device == source.device:
        return None
    message = (
        f'Attempted to set the storage of a tensor on device "{device_name(written.device)}" to a storage on '
        f'different device "{device_name(source.device)}".  This is no longer allowed; the devices must match.'
    )
    return call.refuse("set-storage", message, common=written.device, blamed=source)


def judge_segment_reduce(call: Call) -> Refusal | None:
    data = call.one("data")
    if data is None:
        return None
    for name in ("lengths", "offsets"):
        other = call.one(name)
        if other is not None and other.device != data.device:
            message = wording.expected_true(f"data.get_device() == {name}_value.get_device()")
            return call.refuse("segment-reduce", message, common=data.device, blamed=other)
    return None


def judge_pack(call: Call) -> Refusal | None:
    """The lengths are read on the host, wherever the data is."""
    lengths = call.one("lengths")
    if lengths is None or lengths.device < 0:
        return None
    tensor = lengths.tensor
    message = (
        f"'lengths' argument should be a 1D CPU int64 tensor, but got {tensor.dim()}D "
        f"{device_name(lengths.device)} {wording.scalar_name(tensor)} tensor"
    )
    return call.refuse("lengths", message, common=CPU, blamed=lengths)


def judge_host_only(call: Call) -> Refusal | None:
    """No kernel for CUDA: refused wherever a GPU's tensor takes part."""
    blamed = next((operand for operand in call.tensors() if operand.device >= 0), None)
    if blamed is None:
        return None
    message = wording.cannot_run(f"aten::{call.name}")
    return call.refuse("host-only", message, common=CPU, blamed=blamed, exception=NotImplementedError)


def judge_pinning(call: Call) -> Refusal | None:
    source = call.one("self")
    if source is None or source.device < 0:
        return None
    message = (
        f"cannot pin '{wording.type_name(source.tensor, source.device)}' only dense CPU tensors can be pinned"
    )
    return call.refuse("pinning", message, common=CPU, blamed=source)


def judge_batch_norm(call: Call) -> Refusal | None:
    """Which backend CUDA picks decides the name in the message; the order is the same."""
    names = ("input", "weight", "bias", "running_mean", "running_var")
    operands = [call.one(name) for name in names]
    source = operands[0]
    if source is None:
        return None
    method = (
        "wrapper_CUDA__cudnn_batch_norm"
        if _picks_cudnn(call, operands)
        else "wrapper_CUDA__native_batch_norm"
    )
    return exact.judge_as(call, operands, method, names)


def _picks_cudnn(call: Call, operands: Sequence[Operand | None]) -> bool:
    """`_select_batch_norm_backend` of Normalization.cpp for an input on a GPU."""
    import torch

    source, weight, bias, mean, variance = operands
    if source is None or source.device < 0 or weight is None or bias is None or source.dim < 3:
        return False
    training = bool(call.values.get("training", call.values.get("train", False)))
    if not (mean is not None and variance is not None) and not (
        mean is None and variance is None and training
    ):
        return False
    kind, weights = source.tensor.dtype, weight.tensor.dtype
    if torch.bfloat16 in (kind, weights) or (kind == torch.float16 and weights != torch.float32):
        return False
    if source.shape[0] > (880801 if training else 65535) or source.tensor.numel() > 2**31 - 1:
        return False
    return float(call.values.get("eps", 1e-5)) >= 1e-5 and torch.backends.cudnn.enabled
