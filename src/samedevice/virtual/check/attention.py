"""Scaled dot-product attention: device types first, then what the chosen backend checks."""

import torch

from samedevice.virtual.check import exact, wording
from samedevice.virtual.check.calls import Call, Operand
from samedevice.virtual.check.tensor_iterator import compare
from samedevice.virtual.refusal import Refusal
from samedevice.virtual.tags import CPU, META, device_name

_FOR_CPU = "aten::_scaled_dot_product_flash_attention_for_cpu"


def judge(call: Call) -> Refusal | None:
    query, key, value = call.one("query"), call.one("key"), call.one("value")
    if query is None or key is None or value is None:
        return None
    if not query.tensor.dtype == key.tensor.dtype == value.tensor.dtype:
        return None
    if not query.device == key.device == value.device:
        message = (
            "Expected query, key, and value to have the same device type, but got query.device: "
            f"{device_name(query.device)} key.device: {device_name(key.device)} and value.device: "
            f"{device_name(value.device)} instead."
        )
        return call.refuse(
            "sdpa",
            message,
            common=max(query.device, key.device, value.device),
            recoverable=META not in call.devices(),
        )
    mask = call.one("attn_mask")
    if (
        mask is None
        or META in call.devices()
        or mask.device == query.device
        or min(query.dim, key.dim, value.dim) < 2
    ):
        return None
    return _judge_mask(call, query, key, value, mask)


def _judge_mask(call: Call, query: Operand, key: Operand, value: Operand, mask: Operand) -> Refusal | None:
    """By the backend that the dispatch of a GPU of today picks (sm_80 and later)."""
    method = ""
    if all(operand.dim in (3, 4) for operand in (query, key, value)):
        if query.device == CPU:
            if not (call.values.get("dropout_p") or mask.tensor.requires_grad):
                message = wording.cannot_run(_FOR_CPU)
                return call.refuse("sdpa", message, common=CPU, blamed=mask, exception=NotImplementedError)
        else:
            method = _fused_method(call, query, value, mask)
    if not method:
        return compare(call, [Operand.like(query)], [query, mask], False, shapes=False)
    return exact.judge_as(call, [query, key, value, mask], method, ("query", "key", "value", "attn_bias"))


def _fused_method(call: Call, query: Operand, value: Operand, mask: Operand) -> str:
    """The kernel that takes a mask; empty for the composite implementation."""
    kind = query.tensor.dtype
    halves = kind in (torch.float16, torch.bfloat16)
    if not halves and kind != torch.float32:
        return ""
    if any(operand.shape[-1] % (8 if halves else 4) for operand in (query, value)):
        return ""
    cuda = torch.backends.cuda
    plain = not (call.values.get("dropout_p") or mask.tensor.requires_grad)
    if halves and plain and cuda.cudnn_sdp_enabled():
        return "wrapper_CUDA___scaled_dot_product_cudnn_attention"
    if cuda.mem_efficient_sdp_enabled():
        return "wrapper_CUDA___scaled_dot_product_efficient_attention"
    return ""


def judge_for_cpu(call: Call) -> Refusal | None:
    """The CPU's kernel, which stands here for the whole function."""
    return judge(call)


def judge_called_by_name(call: Call) -> Refusal | None:
    """The CPU's kernel asked for by its own name: there is none for CUDA."""
    blamed = next((operand for operand in call.tensors() if operand.device >= 0), None)
    if blamed is None:
        return None
    message = wording.cannot_run(_FOR_CPU)
    return call.refuse("host-only", message, common=CPU, blamed=blamed, exception=NotImplementedError)
