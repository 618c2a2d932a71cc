"""One outcome of all ranks: how the program ended, which rank was the first to die, where each stood."""

import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from samedevice.model.fix import Fix
from samedevice.model.outcome import Outcome
from samedevice.processes.merging import merged
from samedevice.processes.record import ProcessRecord

#: how a rank ended whose program did not go wrong
WELL: Final = ("finished", "stopped after")


@dataclass(frozen=True, slots=True)
class Summary:
    """What the ranks came to.

    Attributes:
        fixes: for each diagnostic of the outcome the edits that may take it out.
        status: the exit status of the command.
    """

    outcome: Outcome
    fixes: tuple[tuple[Fix, ...], ...]
    status: int


def summarise(
    records: Sequence[ProcessRecord],
    *,
    gpus: int,
    world: int,
    exits: Mapping[int, int] | None = None,
    trouble: str | None = None,
    interrupted: bool = False,
    seconds: float | None = None,
) -> Summary:
    """What to report of the ranks' records.

    Args:
        exits: rank -> exit status, negative for a signal, as the launcher saw them fail.
        trouble: why the ranks could not be started.
    """
    members = latest(records)
    findings = merged((), records)
    first = first_to_die(members, exits or {})
    stopped = [m for m in members if m.ended and m.ended.startswith("stopped")]
    if first is not None and stopped and not first.ended_at < min(m.ended_at for m in stopped):
        first = None  # its peers were stopped, and it lost them
    notes = list(dict.fromkeys(note for record in records for note in record.notes))
    status = 1 if findings else 0
    if interrupted:
        program, status, first = "interrupted", 130, None
    elif stopped and first is None:
        program = str(stopped[0].ended)
    elif first is not None:
        program = f"{how_it_died(first, exits or {})} in rank {first.rank}"
        by_mistake = first.by_mistake or (first.refused and first.ended is not None)
        status = 1 if by_mistake and findings else 2
    elif trouble is not None:
        program, status = "did not start", 2
        notes.append(trouble)
    elif any(m.ended is None for m in members) or len(members) < min(world, 1):
        program, status = "ended early", 2
    else:
        program = "finished"
    if program != "finished":
        notes += standing(members, first)
    outcome = Outcome(
        command="check",
        diagnostics=tuple(diagnostic for diagnostic, _ in findings),
        virtual_gpus=gpus,
        ranks=world,
        program=program,
        notes=tuple(notes),
        seconds=seconds,
    )
    return Summary(outcome, tuple(fixes for _, fixes in findings), status)


def latest(records: Sequence[ProcessRecord]) -> list[ProcessRecord]:
    """The ranks in order, of each the process that was started last: a launcher may start them again."""
    found: dict[int, ProcessRecord] = {}
    for record in records:
        if record.member and record.rank is not None:
            known = found.get(record.rank)
            if known is None or record.started > known.started:
                found[record.rank] = record
    return [found[rank] for rank in sorted(found)]


def first_to_die(members: Sequence[ProcessRecord], exits: Mapping[int, int]) -> ProcessRecord | None:
    """The rank that went wrong by itself; others fail after it because they have lost it."""
    killed = [
        m
        for m in members
        if m.ended is None and m.rank is not None and exits.get(m.rank, 0) not in (0, -signal.SIGTERM)
    ]
    if killed:
        return killed[0]
    failed = [m for m in members if m.ended is not None and m.status and not m.ended.startswith(WELL)]
    failed = [m for m in failed if not m.ended or not m.ended.startswith("ended by")]
    if failed:
        return min(failed, key=lambda m: m.ended_at)
    lost = [m for m in members if m.ended is None and not m.alive]
    return lost[0] if lost else None


def how_it_died(record: ProcessRecord, exits: Mapping[int, int]) -> str:
    """In words that follow "the program"."""
    if record.ended is not None:
        return record.ended
    status = exits.get(record.rank or 0, 0)
    if status < 0:
        try:
            return f"was killed by {signal.Signals(-status).name}"
        except ValueError:
            return f"was killed by signal {-status}"
    return f"exited with status {status}" if status else "was killed"


def standing(members: Sequence[ProcessRecord], first: ProcessRecord | None) -> list[str]:
    """Where each rank was when it was stopped, and that one died before the others."""
    notes = []
    if first is not None and len(members) > 1:
        own = "; its own traceback is above" if (first.ended or "").startswith("raised") else ""
        notes.append(f"rank {first.rank} was the first to end{own}")
    for member in members:
        if member is first:
            continue
        if member.stood is not None:
            notes.append(f"rank {member.rank} was stopped at {member.stood}")
        elif member.ended is not None and not member.ended.startswith(WELL):
            notes.append(f"rank {member.rank} {member.ended}")
    return notes


def world_of_environment() -> int:
    """How many ranks the launcher has started in all."""
    text = os.environ.get("WORLD_SIZE", "1")
    return int(text) if text.isdigit() else 1
