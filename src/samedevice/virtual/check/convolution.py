"""Convolutions, which compare tensor types before anything else."""

from samedevice.virtual.check.calls import Call
from samedevice.virtual.refusal import Refusal


def judge(call: Call) -> Refusal | None:
    return None
