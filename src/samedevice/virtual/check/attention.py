"""Scaled dot-product attention: device types first, then what the chosen backend checks."""

from samedevice.virtual.check.calls import Call
from samedevice.virtual.refusal import Refusal


def judge_for_cpu(call: Call) -> Refusal | None:
    return None
