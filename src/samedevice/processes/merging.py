"""Equal findings of several processes become one, with the processes that it came from."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from samedevice.model.diagnostic import Diagnostic
from samedevice.processes.record import Finding, ProcessRecord


def merged(own: Sequence[Finding], records: Iterable[ProcessRecord]) -> list[Finding]:
    """The findings of this process and of others, each mistake once.

    The words are those of the first process that found it: of the lowest rank, which `read` puts first.
    """
    found: dict[Any, Finding] = {identity(diagnostic): (diagnostic, fixes) for diagnostic, fixes in own}
    pids: dict[Any, set[int]] = {key: {0} for key in found}
    for record in records:
        for diagnostic, fixes in record.findings:
            key = identity(diagnostic)
            ranks = () if record.rank is None else (record.rank,)
            pids.setdefault(key, set()).add(record.pid)
            known = found.get(key)
            if known is None:
                found[key] = replace(diagnostic, ranks=_together(diagnostic.ranks, ranks)), fixes
            else:
                found[key] = _added(known[0], diagnostic, ranks), known[1] or fixes
    return [
        (replace(diagnostic, processes=len(pids[key])), fixes) for key, (diagnostic, fixes) in found.items()
    ]


def identity(d: Diagnostic) -> tuple[Any, ...]:
    """Equal for the same mistake in another process, whose GPU may have another index."""
    at = d.location
    return d.rule, at.path, at.line, at.column, at.cell, re.sub(r"\bcuda:\d+\b", "cuda:N", d.message)


def _added(first: Diagnostic, other: Diagnostic, ranks: tuple[int, ...]) -> Diagnostic:
    raised = first.raised
    if raised is not None and other.raised is not None:
        raised = replace(raised, count=raised.count + other.raised.count)
    return replace(
        first,
        raised=raised,
        count=first.count + other.count,
        ranks=_together(first.ranks, other.ranks, ranks),
    )


def _together(*ranks: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted({rank for some in ranks for rank in some}))
