"""The same-device check that torchgen writes in front of CUDA kernels."""

from collections.abc import Sequence

import torch

from samedevice.torch_facts.op_rules import OpRules
from samedevice.virtual.check.calls import Call, Operand
from samedevice.virtual.refusal import Refusal


def checked_operands(call: Call) -> list[Operand]:
    """In the order of the check: `out=` first, then the positional ones; other keywords never."""
    tensors = list(call.tensors())
    outputs = [operand for operand in tensors if operand.keyword and operand.written]
    return outputs + [operand for operand in tensors if not operand.keyword]


def backend_of(call: Call) -> str:
    """The CUDA backend whose kernel the dispatcher picks: layouts other than strided come first."""
    backend = "CUDA"
    for operand in call.tensors():
        tensor = operand.tensor
        if tensor.layout == torch.strided:
            if tensor.is_quantized:
                backend = "QuantizedCUDA"
            elif tensor.is_nested:
                return "NestedTensorCUDA"
        elif tensor.layout == torch.sparse_coo:
            return "SparseCUDA"
        elif tensor.layout == torch.jagged:
            return backend
        else:
            backend = "SparseCsrCUDA"
    return backend


def judge(call: Call, rules: OpRules) -> Refusal | None:
    method = rules.method(call.name, call.signature.is_out, backend_of(call))
    if method is None:
        return None
    return judge_as(call, checked_operands(call), method)


def judge_as(
    call: Call, operands: Sequence[Operand | None], method: str, names: tuple[str, ...] = ()
) -> Refusal | None:
    """The check over these operands in this order, undefined ones skipped.

    `names`: how the callee calls them, where that differs from the call's own names.
    """
    common = None
    for index, operand in enumerate(operands):
        if operand is None:
            continue
        if common is None:
            common = operand.device
        elif operand.device != common:
            return call.refuse_exact(operand, common, method, argument=names[index] if names else "")
    return None
