"""Sparse tensors: kernels of their own, which compare devices in words of their own."""

import torch

from samedevice.virtual.check import exact, tensor_iterator, wording
from samedevice.virtual.check.calls import Call, Operand
from samedevice.virtual.refusal import Refusal
from samedevice.virtual.tags import CPU, device_name


def _is_sparse(operand: Operand) -> bool:
    return operand.tensor is not None and operand.tensor.layout == torch.sparse_coo


def judge_arithmetic(call: Call) -> Refusal | None:
    """add, sub, mul: an iterator unless a sparse tensor takes part."""
    inputs = call.inputs()
    if len(inputs) < 2 or not any(map(_is_sparse, inputs)):
        return tensor_iterator.judge(call)
    left, right = inputs[0], inputs[1]
    if not left.dim or not right.dim or call.signature.is_out:
        return tensor_iterator.judge(call)
    if call.base.startswith("mul"):
        return _judge_product(call, left, right)
    if _is_sparse(left) and not _is_sparse(right):
        return None
    if _is_sparse(left):
        return _compare(call, left, right, "add: expected '{}' to be CUDA, but got CPU", "{r_, t, src}")
    words = "add: expected '{}' to be a CUDA tensor, but got a CPU tensor"
    return _compare(call, left, right, words, "{sparse, r_, dense}")


def _compare(call: Call, left: Operand, right: Operand, words: str, checked: str) -> Refusal | None:
    for name, operand, other in (("self", left, right), ("other", right, left)):
        if operand.device == CPU and other.device != CPU:
            return call.refuse("sparse", words.format(name), common=other.device, blamed=operand)
    if left.device == right.device:
        return None
    message = wording.expected_true(f"cuda::check_device({checked})")
    return call.refuse("sparse", message, common=left.device, blamed=right)


def _judge_product(call: Call, left: Operand, right: Operand) -> Refusal | None:
    if left.device == right.device:
        return None
    if _is_sparse(left) and _is_sparse(right):
        # the result is made where `self` is
        words = "mul: expected '{}' to be CUDA, but got CPU"
        if left.device == CPU:
            return call.refuse("sparse", words.format("out"), common=right.device, blamed=left)
        return _compare(call, left, right, words, "{r_, t_, src_}")
    sparse, dense = (left, right) if _is_sparse(left) else (right, left)
    if sparse.device == CPU:
        message = "mul: expected 'out' to be CUDA, but got CPU"
    else:
        message = (
            "indices should be either on cpu or on the same device as the indexed tensor "
            f"({device_name(dense.device)})"
        )
    return call.refuse("sparse", message, common=dense.device, blamed=sparse)


def judge_addmm(call: Call) -> Refusal | None:
    operands = [call.one("self"), call.one("mat1"), call.one("mat2")]
    return exact.judge_as(call, operands, "wrapper_SparseCUDA__addmm", ("self", "mat1", "mat2"))


def judge_mm(call: Call) -> Refusal | None:
    """`torch.sparse.mm`: a sum with zeros that are where the dense matrix is."""
    left, right = call.one("mat1"), call.one("mat2")
    if left is None or right is None or not _is_sparse(left) or _is_sparse(right):
        return None
    operands = [Operand.like(right), left, right]
    return exact.judge_as(call, operands, "wrapper_SparseCUDA__addmm", ("self", "mat1", "mat2"))


def judge_compressed(call: Call) -> Refusal | None:
    """The values are compared with both kinds of indices, called after the layout."""
    values = call.one("values")
    by_row = call.values.get("layout") not in (torch.sparse_csc, torch.sparse_bsc)
    names = ("crow_indices", "col_indices") if by_row else ("ccol_indices", "row_indices")
    for argument, name in zip(("compressed_indices", "plain_indices"), names, strict=True):
        indices = call.one(argument)
        if values is not None and indices is not None and indices.device != values.device:
            message = f"Values and {name} need to be on the same device."
            return call.refuse("sparse", message, common=values.device, blamed=indices)
    return None
