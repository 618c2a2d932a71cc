"""Sentences and edits that the rules of cost share."""

import ast

from samedevice.model.diagnostic import Evidence
from samedevice.model.fix import Applicability, Fix
from samedevice.model.traffic import Traffic
from samedevice.source.calls import SourceCalls


def shown_size(nbytes: float) -> str:
    """Bytes as a person reads them."""
    for unit in ("B", "kB", "MB"):
        if nbytes < 1000:
            return f"{nbytes:.0f} {unit}" if unit == "B" or nbytes >= 100 else f"{nbytes:.1f} {unit}"
        nbytes /= 1000
    return f"{nbytes:.1f} GB"


def shown_time(seconds: float) -> str:
    """A short time as a person reads it."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def times(traffic: Traffic) -> str:
    """How often, in the words of a message."""
    share = traffic.hits / max(traffic.steps, 1)
    often = traffic.count / max(traffic.hits, 1)
    where = "in every step" if share > 0.9 else f"in {share * 100:.0f} % of the steps"
    return f"{often:.0f} times {where}" if often > 1.5 else where


def saving(traffic: Traffic, factor: float = 1.0) -> str:
    """What it would save, as an estimate."""
    return (
        f"estimated saving: {shown_time(traffic.seconds_per_step * factor)} a step, "
        f"{shown_time(traffic.seconds * factor)} in the {traffic.steps} steps of this run"
    )


def pinned_saving(traffic: Traffic) -> str:
    """What pinned memory would save, as an estimate."""
    return (
        f"estimated: {shown_time(traffic.seconds_per_step)} a step of waiting for "
        f"{shown_size(traffic.bytes_per_step)}, which could overlap with the work of the GPU"
    )


def loader_evidence(traffic: Traffic) -> tuple[Evidence, ...]:
    """Where the batches come from and where they are moved."""
    steps = (
        [] if traffic.loader is None else [Evidence(traffic.loader, "made without `pin_memory=True` here")]
    )
    steps.append(Evidence(traffic.location, f"moved here, {traffic.count} times in {traffic.steps} steps"))
    return tuple(steps)


def pin_memory(traffic: Traffic) -> Fix | None:
    """`pin_memory=True` for the DataLoader, and `non_blocking=True` where its batches move."""
    if traffic.loader is None:
        return None
    calls = SourceCalls(traffic.loader.path, traffic.loader_text)
    call = calls.at(traffic.loader)
    if not isinstance(call, ast.Call):
        return None
    added = calls.with_keyword(call, "pin_memory", "True")
    if added is None:
        return None
    edits = [added]
    if not traffic.non_blocking and traffic.direct:
        mover = SourceCalls(traffic.location.path, traffic.text)
        move = mover.at(traffic.location)
        if (
            isinstance(move, ast.Call)
            and isinstance(move.func, ast.Attribute)
            and move.func.attr in ("to", "cuda")
        ):
            asked = mover.with_keyword(move, "non_blocking", "True")
            edits += [] if asked is None else [asked]
    return Fix("Pin the batches", Applicability.UNSAFE, tuple(edits))
