"""Recurrent networks compare the input with each weight, then with the hidden state."""

from samedevice.virtual.check.calls import Call
from samedevice.virtual.refusal import Refusal


def judge_layer(call: Call) -> Refusal | None:
    return None
