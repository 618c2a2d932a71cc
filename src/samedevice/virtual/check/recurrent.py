"""Recurrent networks compare the input with the hidden state, then with each weight."""

from collections.abc import Sequence

import torch

from samedevice.virtual.check import exact
from samedevice.virtual.check.calls import Call, Operand
from samedevice.virtual.check.tensor_iterator import compare
from samedevice.virtual.refusal import Refusal
from samedevice.virtual.tags import CPU, device_name


def check_attributes(
    call: Call, source: Operand | None, weights: Sequence[Operand], hidden: Sequence[Operand]
) -> Refusal | None:
    if source is None:
        return None
    for what, operands in (("hidden", hidden), ("parameter", weights)):
        for operand in operands:
            if operand.device != source.device:
                message = (
                    f"Input and {what} tensors are not at the same device, found input tensor at "
                    f"{device_name(source.device)} and {what} tensor at {device_name(operand.device)}"
                )
                return call.refuse("rnn", message, common=source.device, blamed=operand)
    return None


def judge_layer(call: Call) -> Refusal | None:
    """One layer of the CPU's own LSTM: CUDA has checked the whole network before."""
    weights = [operand for operand in call.tensors() if operand.name.startswith("weight")]
    hidden = [operand for operand in (call.one("hx_"), call.one("cx_")) if operand is not None]
    return check_attributes(call, call.one("input"), weights, hidden)


def judge_network(call: Call) -> Refusal | None:
    """lstm, gru, rnn_tanh, rnn_relu; packed ones are checked on the cuDNN path alone."""
    source, hidden, weights = call.one("input"), call.many("hx"), call.many("params")
    if source is None or not call.values.get("packed"):
        return check_attributes(call, source, weights, hidden)
    if source.device == CPU:
        return _judge_steps(call, source, hidden, weights)
    if torch.backends.cudnn.enabled:
        batch_sizes = call.one("batch_sizes")
        refusal = check_attributes(call, source, weights, hidden)
        if refusal is None and batch_sizes is not None and batch_sizes.device != CPU:
            message = f"batch_sizes tensor should be on CPU, but got {device_name(batch_sizes.device)}"
            return call.refuse("rnn", message, common=CPU, blamed=batch_sizes)
        return refusal
    if len(weights) < 2 or not hidden or not call.values.get("fused"):
        return None
    return _judge_products(call, (source, weights[0]), (hidden[0], weights[1]))


def _judge_steps(
    call: Call, source: Operand, hidden: Sequence[Operand], weights: Sequence[Operand]
) -> Refusal | None:
    """The plain cell, step by step: two products, then the gates with the cell state."""
    biases = bool(call.values.get("has_biases", True))
    if not hidden or len(weights) < (4 if biases else 2):
        return None
    for number, left in enumerate((source, hidden[0])):
        if biases:
            operands = [weights[number + 2], left, weights[number]]
            refusal = exact.judge_as(call, operands, "wrapper_CUDA_addmm", ("self", "mat1", "mat2"))
        else:
            refusal = _judge_products(call, (left, weights[number]))
        if refusal is not None:
            return refusal
    if len(hidden) < 2:
        return None
    return compare(call, [], [Operand.like(source), hidden[1]], False, shapes=False)


def _judge_products(call: Call, *pairs: tuple[Operand | None, Operand | None]) -> Refusal | None:
    for left, right in pairs:
        refusal = exact.judge_as(call, [left, right], "wrapper_CUDA_mm", ("self", "mat2"))
        if refusal is not None:
            return refusal
    return None


def judge_fused_cell(call: Call) -> Refusal | None:
    """lstm_cell and gru_cell with an input on a GPU: two products, then the fused kernel."""
    source = call.one("input")
    if source is None or source.device == CPU:
        return None
    hidden = call.many("hx")
    state = hidden[0] if hidden else None
    refusal = _judge_products(call, (source, call.one("w_ih")), (state, call.one("w_hh")))
    if refusal is not None:
        return refusal
    kind = "lstm" if call.base == "lstm_cell" else "gru"
    last = hidden[1] if kind == "lstm" and len(hidden) > 1 else state
    gates = Operand.like(source)
    return exact.judge_as(
        call,
        [gates, gates, last, call.one("b_ih"), call.one("b_hh")],
        f"wrapper_CUDA___thnn_fused_{kind}_cell",
        ("input_gates", "hidden_gates", "cx" if kind == "lstm" else "hx", "input_bias", "hidden_bias"),
    )
