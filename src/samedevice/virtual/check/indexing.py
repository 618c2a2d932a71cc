"""Indexing: `x[i]`, `x[i] = v`, masks, fills. Indices have rules of their own."""

import torch

from samedevice.virtual.check import exact
from samedevice.virtual.check.calls import Call, Operand
from samedevice.virtual.check.tensor_iterator import compare
from samedevice.virtual.refusal import Refusal
from samedevice.virtual.tags import CPU, device_name


def judge_index(call: Call) -> Refusal | None:
    """Indices are on the CPU or where the indexed tensor is."""
    indexed = call.one("self")
    if indexed is None:
        return None
    refusal = _judge_indices(call, indexed)
    if refusal is not None:
        return refusal
    outputs = [operand for operand in call.outputs() if operand.keyword]
    return compare(call, outputs, [indexed], False, shapes=False)


def _judge_indices(call: Call, indexed: Operand) -> Refusal | None:
    for index in call.many("indices"):
        if index.device not in (CPU, indexed.device):
            message = (
                "indices should be either on cpu or on the same device as the indexed tensor "
                f"({device_name(indexed.device)})"
            )
            return call.refuse("index", message, common=indexed.device, blamed=index)
    return None


def judge_index_put(call: Call) -> Refusal | None:
    """Indices may be anywhere; a value with dimensions is where the written tensor is."""
    written, values = call.one("self"), call.one("values")
    if written is None or values is None or values.dim == 0 or values.device == written.device:
        return None
    if written.device >= 0 and (
        call.values.get("accumulate") or torch.are_deterministic_algorithms_enabled()
    ):
        message = (
            f"expected device {device_name(written.device)} but got device {device_name(values.device)} "
            "for value tensor"
        )
        return call.refuse("index-put", message, common=written.device, blamed=values)
    return compare(call, [written], [values], False, shapes=False)


def judge_index_fill(call: Call) -> Refusal | None:
    """The value may be anywhere, the index not."""
    written, index = call.one("self"), call.one("index")
    if written is None or index is None:
        return None
    return compare(call, [written], [index], False, shapes=False)


def judge_masked_fill(call: Call) -> Refusal | None:
    written, mask, value = call.one("self"), call.one("mask"), call.one("value")
    if written is None:
        return None
    if value is not None and value.dim:
        return None
    if mask is not None and mask.device != written.device:
        if value is not None and written.device == CPU:
            return _same_device(call, written, mask)
        message = (
            f"expected self and mask to be on the same device, but got mask on {device_name(mask.device)} "
            f"and self on {device_name(written.device)}"
        )
        return call.refuse("masked-fill", message, common=written.device, blamed=mask)
    if value is not None and written.device == CPU and value.device != CPU:
        return _same_device(call, written, value)
    return None


def _same_device(call: Call, written: Operand, blamed: Operand) -> Refusal:
    message = "masked_fill_: Expected inputs to be on same device"
    return call.refuse("masked-fill", message, common=written.device, blamed=blamed)


def judge_masked_index(call: Call) -> Refusal | None:
    """`_unsafe_masked_index`: an index, then a masked fill of its result."""
    indexed, mask = call.one("self"), call.one("mask")
    if indexed is None:
        return None
    refusal = _judge_indices(call, indexed)
    if refusal is None and mask is not None and mask.device != indexed.device:
        refusal = _mask_of(call, mask, indexed)
    return refusal


def judge_masked_index_put(call: Call) -> Refusal | None:
    """`_unsafe_masked_index_put_accumulate`: a masked fill of the values, then an accumulating put."""
    written, mask, values = call.one("self"), call.one("mask"), call.one("values")
    if written is None or values is None:
        return None
    if mask is not None and mask.device != values.device:
        return _mask_of(call, mask, values)
    return judge_index_put(Call(call.signature, {**call.values, "accumulate": True}, call.operands))


def _mask_of(call: Call, mask: Operand, filled: Operand) -> Refusal:
    message = (
        f"expected self and mask to be on the same device, but got mask on {device_name(mask.device)} "
        f"and self on {device_name(filled.device)}"
    )
    return call.refuse("masked-fill", message, common=filled.device, blamed=mask)


def judge_searchsorted(call: Call, method: str | None) -> Refusal | None:
    """The generated check, then the operator's own for the keyword-only `sorter`."""
    if method is not None:
        refusal = exact.judge_as(call, [*exact.checked_operands(call)], method)
        if refusal is not None:
            return refusal
    boundaries, sorter = call.one("sorted_sequence"), call.one("sorter")
    if boundaries is None or sorter is None or boundaries.device == sorter.device:
        return None
    message = (
        "torch.searchsorted(): sorter and boundary tensors should have same device type, but got sorter "
        f"tensor device type {device_name(sorter.device)} and input value tensor device type "
        f"{device_name(boundaries.device)}"
    )
    return call.refuse("searchsorted", message, common=boundaries.device, blamed=sorter)
