"""From an operator to the function that judges it, found once and kept."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import torch

from samedevice.torch_facts import op_rules
from samedevice.virtual.check import (
    attention,
    composites,
    convolution,
    exact,
    foreach,
    indexing,
    recurrent,
    sparse,
    tensor_iterator,
    wording,
)
from samedevice.virtual.check.calls import Call, Signature, first_device
from samedevice.virtual.refusal import Refusal

Judge = Callable[[Call], Refusal | None]

RULES: Final = op_rules.load(wording.RELEASE)

#: operators with a rule of their own, by name without overload and trailing underscore
BY_BASE: Final[dict[str, Judge]] = {
    # indexing
    "index": indexing.judge_index,
    "_unsafe_index": indexing.judge_index,
    "index_put": indexing.judge_index_put,
    "_index_put_impl": indexing.judge_index_put,
    "_unsafe_index_put": indexing.judge_index_put,
    "index_fill": indexing.judge_index_fill,
    "masked_fill": indexing.judge_masked_fill,
    "_unsafe_masked_index": indexing.judge_masked_index,
    "_unsafe_masked_index_put_accumulate": indexing.judge_masked_index_put,
    # iterators with turns of their own
    "where": tensor_iterator.judge_where,
    "addcmul": tensor_iterator.judge_addcmul,
    "lerp": tensor_iterator.judge_lerp,
    "logical_and": tensor_iterator.judge_into_self_device,
    "logical_or": tensor_iterator.judge_into_self_device,
    "logical_xor": tensor_iterator.judge_into_self_device,
    "dist": tensor_iterator.judge,
    "ldexp": tensor_iterator.judge,
    "soft_margin_loss": tensor_iterator.judge_into_self_device,
    "soft_margin_loss_backward": composites.judge_soft_margin_backward,
    "binary_cross_entropy_with_logits": composites.judge_bce_with_logits,
    "rsub": tensor_iterator.judge_rsub,
    "mse_loss": tensor_iterator.judge_mse_loss,
    "allclose": tensor_iterator.judge,
    "smooth_l1_loss": tensor_iterator.judge_smooth_l1,
    "binary_cross_entropy": composites.judge_bce,
    # sparse tensors may take part
    "add": sparse.judge_arithmetic,
    "sub": sparse.judge_arithmetic,
    "mul": sparse.judge_arithmetic,
    "_sparse_addmm": sparse.judge_addmm,
    "sparse_compressed_tensor": sparse.judge_compressed,
    # taken apart inside
    "block_diag": composites.judge_block_diag,
    "_euclidean_dist": composites.judge_euclidean,
    "mv": composites.judge_mv,
    "cholesky_solve": composites.judge_cholesky_solve,
    "segment_reduce": composites.judge_segment_reduce,
    "convolution": convolution.judge,
    "_convolution": convolution.judge,
    "mkldnn_convolution": convolution.judge,
    "mkldnn_rnn_layer": recurrent.judge_layer,
    "_scaled_dot_product_flash_attention_for_cpu": attention.judge_for_cpu,
    # the host's part
    "_pack_padded_sequence": composites.judge_pack,
    "_pin_memory": composites.judge_pinning,
    # any device
    **dict.fromkeys(
        [
            "copy",
            "copy_sparse_to_sparse",
            "_copy_from",
            "_copy_from_and_resize",
            "_to_copy",
            "fill",
            "full_like",
            "slice_scatter",
            "select_scatter",
            "diagonal_scatter",
            "as_strided_scatter",
            "set",
            "is_set_to",
            "resize_as",
            "resize_as_sparse",
            "expand_as",
            "view_as",
            "reshape_as",
            "type_as",
            "is_same_size",
            "_ctc_loss",
            "_ctc_loss_backward",
            "_cudnn_ctc_loss",
            "_use_cudnn_ctc_loss",
            "bernoulli",
            "randint_like",
            "linspace",
            "logspace",
            "_has_same_storage_numel",
            "_nested_tensor_from_tensor_list",
            "_make_dual",
            "mkldnn_rnn_layer_backward",
            "_scaled_dot_product_flash_attention_for_cpu_backward",
            "_nested_view_from_buffer",
            "_nested_from_padded",
            "_validate_compressed_sparse_indices",
        ],
        composites.judge_never,
    ),
}

BY_NAME: Final[dict[str, Judge]] = {
    **dict.fromkeys(composites.DELEGATES, composites.judge_delegate),
    "native_batch_norm": composites.judge_batch_norm,
    "set_.source_Tensor": composites.judge_set,
    "linear.out": composites.judge_linear_out,
    "mean.dtype_out": composites.judge_output_resized,
    "logsumexp.out": composites.judge_output_resized,
    "max.unary_out": composites.judge_unary_reduction,
    "min.unary_out": composites.judge_unary_reduction,
    "unbind_copy.int_out": composites.judge_list_out,
    "split_copy.Tensor_out": composites.judge_list_out,
    "linalg_pinv.atol_rtol_tensor": composites.judge_pinv,
    "_sparse_mm_reduce_impl": composites.judge_no_sparse_kernel,
    "deg2rad.out": tensor_iterator.judge_with_number,
    "rad2deg.out": tensor_iterator.judge_with_number,
    "cummax.out": composites.judge_expected_device,
    "cummin.out": composites.judge_expected_device,
    "logcumsumexp.out": composites.judge_expected_device,
    "mode.values": composites.judge_mode_out,
    "dot.out": composites.judge_dot_out,
    "vdot.out": composites.judge_dot_out,
}


@dataclass(frozen=True, slots=True)
class Plan:
    """How an operator is judged.

    Attributes:
        judge: None when any devices go together.
        always: also calls whose operands agree are judged: some must not be on a GPU at all.
        tensors: it takes more than one tensor.
    """

    signature: Signature
    judge: Judge | None
    always: bool = False
    tensors: bool = False


_plans: dict[Any, Plan] = {}

_ALWAYS_BASES: Final = frozenset({"_pack_padded_sequence", "_pin_memory", "_sparse_mm_reduce_impl"})


def plan_of(func: Any) -> Plan:
    """The plan of an `OpOverload`."""
    plan = _plans.get(func)
    if plan is None:
        plan = _plans[func] = _make(func)
    return plan


def _make(func: Any) -> Plan:
    signature = Signature.of(func)
    if not func._schema.name.startswith("aten::"):
        return Plan(signature, None)
    kinds = [parameter.kind for parameter in signature.parameters]
    if kinds.count("other") == len(kinds):
        return Plan(signature, None)
    tensors = kinds.count("tensor") > 1 or "list" in kinds
    judge = _judge_for(signature)
    always = signature.base.removesuffix("_") in _ALWAYS_BASES or judge is composites.judge_host_only
    # numbers in a tensor are read on the host
    always = always or any(p.name == "scalars" and p.kind == "tensor" for p in signature.parameters)
    return Plan(signature, None if judge is composites.judge_never else judge, always, tensors)


def _judge_for(signature: Signature) -> Judge | None:
    name, base = signature.name, signature.base.removesuffix("_")
    kind = RULES.kind(name)
    if name in BY_NAME:
        return BY_NAME[name]
    if kind == "generated-out":
        return _judge_generated_out(signature)
    if base in BY_BASE:
        return BY_BASE[base]
    if base == "searchsorted":
        return partial(indexing.judge_searchsorted, method=RULES.method(name, signature.is_out))
    if base == "_sparse_coo_tensor_with_dims_and_tensors":
        method = RULES.method(name, signature.is_out, "SparseCUDA")
        return partial(_judge_method, method=method) if method else None
    if kind == "exact":
        return partial(exact.judge, rules=RULES)
    if kind == "iterator":
        return tensor_iterator.judge
    if kind == "foreach":
        return foreach.judge
    if kind == "structured":
        return composites.judge_output_resized if signature.is_out else None
    if kind == "host-only":
        return composites.judge_host_only
    if tensor_iterator.plain_name(base) in tensor_iterator.CPU_SCALARS:
        return tensor_iterator.judge_with_number
    return None


def _judge_method(call: Call, method: str) -> Refusal | None:
    return exact.judge_as(call, [*exact.checked_operands(call)], method)


def _judge_generated_out(signature: Signature) -> Judge:
    """The functional overload's judge, then a copy into `out=`, whose device is compared."""
    overload = signature.name.partition(".")[2].removesuffix("out").removesuffix("_")
    packet = getattr(torch.ops.aten, signature.base)
    functional = getattr(packet, overload or "default", None)
    if functional is None and hasattr(torch.ops.aten, signature.base + "_"):
        functional = getattr(getattr(torch.ops.aten, signature.base + "_"), overload or "default", None)
    inner = plan_of(functional) if functional is not None else None
    into_self = signature.base in RESULT_ON_SELF

    def judge(call: Call) -> Refusal | None:
        inputs = call.inputs()
        if inner is not None and inner.judge is not None:
            refusal = inner.judge(Call(inner.signature, call.values, inputs))
            if refusal is not None:
                return refusal
        tensors = [operand for operand in inputs if operand.tensor is not None]
        if not tensors:
            return None
        device = tensors[0].device if into_self else first_device(tensors)
        for out in call.outputs():
            if out.keyword and out.device != device:
                message = composites.expected_out(device, out.device)
                return call.refuse("out-device", message, common=device, blamed=out)
        return None

    return judge


#: operators whose result is where their first argument is, whatever the others say
RESULT_ON_SELF: Final = frozenset(
    [
        "index",
        "_unsafe_index",
        "index_put",
        "_index_put_impl",
        "_unsafe_index_put",
        "index_fill",
        "masked_fill",
        "_unsafe_masked_index",
        "_unsafe_masked_index_put_accumulate",
        "copy",
        "slice_scatter",
        "select_scatter",
        "diagonal_scatter",
        "as_strided_scatter",
        "fill",
        "full_like",
        "bernoulli",
        "randint_like",
        "_ctc_loss",
        "_ctc_loss_backward",
        "logical_and",
        "logical_or",
        "logical_xor",
        "expand_as",
        "view_as",
        "reshape_as",
        "set",
    ]
)


def always_ops() -> frozenset[Any]:
    """The overloads of the running torch that are judged even when all operands agree."""
    names = RULES.groups["host-only"] | {
        name for name in RULES.groups["foreach"] if name.startswith("_foreach_addc")
    }
    found = set()
    for base in {name.partition(".")[0] for name in names} | _ALWAYS_BASES:
        packet = getattr(torch.ops.aten, base, None)
        for overload in packet.overloads() if packet is not None else ():
            func = getattr(packet, overload)
            if plan_of(func).always:
                found.add(func)
    return frozenset(found)
