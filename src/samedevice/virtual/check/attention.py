"""Scaled dot-product attention: device types first, then what the chosen backend checks."""

import torch

from samedevice.virtual.check import exact, wording
from samedevice.virtual.check.calls import Call, Operand
from samedevice.virtual.check.tensor_iterator import compare
from samedevice.virtual.refusal import Refusal
from samedevice.virtual.tags import CPU, device_name

_FOR_CPU = "aten::_scaled_dot_product_flash_attention_for_cpu"


def judge(call: Call) -> Refusal | None:
    query, key, value = call.one("query"), call.one("key"), call.one("value")
    if query is None or key is None or value is None:
        return None
    if not query.tensor.dtype == key.tensor.dtype == value.tensor.dtype:
        return None
    kinds = {wording.device_type(operand.device) for operand in (query, key, value)}
    if len(kinds) > 1:
        message = (
            "Expected query, key, and value to have the same device type, but got query.device: "
            f"{device_name(query.device)} key.device: {device_name(key.device)} and value.device: "
            f"{device_name(value.device)} instead."
        )
        return call.refuse("sdpa", message, common=max(query.device, key.device, value.device))
    if min(query.dim, key.dim, value.dim) < 2:
        return None
    return _judge_backend(call, query, key, value, call.one("attn_mask"))


def _judge_backend(
    call: Call, query: Operand, key: Operand, value: Operand, mask: Operand | None
) -> Refusal | None:
    fused = query.dim == key.dim == value.dim == 4
    if query.device == CPU:
        if mask is None or mask.device == CPU:
            return None
        if fused:
            message = wording.cannot_run(_FOR_CPU)
            return call.refuse("sdpa", message, common=CPU, blamed=mask, exception=NotImplementedError)
        return compare(call, [Operand.like(mask)], [query, mask], False, shapes=False)
    kind = query.tensor.dtype
    if fused and kind == torch.float32:
        method = "wrapper_CUDA___scaled_dot_product_efficient_attention"
    elif fused and kind in (torch.float16, torch.bfloat16):
        backend = "cudnn" if mask is not None else "flash"
        method = f"wrapper_CUDA___scaled_dot_product_{backend}_attention"
    else:
        refusal = exact.judge_as(call, [query, key], "wrapper_CUDA_bmm", ("self", "mat2"))
        if refusal is not None or mask is None:
            return refusal
        return compare(call, [Operand.like(query)], [query, mask], False, shapes=False)
    return exact.judge_as(call, [query, key, value, mask], method, ("query", "key", "value", "attn_bias"))


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
