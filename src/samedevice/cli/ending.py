"""The processes of a program whose time is up: where each stands, and their end."""

import sys
import time
from typing import Any, Final

from samedevice.processes import standing

#: seconds that they get to end
GRACE: Final = 5.0
#: places that are worth telling
MOST: Final = 8


def end_processes(engine: Any) -> None:
    """End what `multiprocessing` has started, for the end of the program would wait for it; note where it stood."""
    running = sys.modules["multiprocessing"].active_children() if "multiprocessing" in sys.modules else []
    folder = engine.children.folder
    for note in notes_of(
        {} if folder is None else standing.ask(folder),
        {process.pid: process.name for process in running},
        {record.pid: record.rank for record in engine.children.records()},
    ):
        engine.session.note(note)
    if running:
        engine.session.note(f"processes of the program that still ran were ended: {len(running)}")
    for process in running:
        process.terminate()
    until = time.monotonic() + GRACE
    for process in running:
        process.join(max(0.0, until - time.monotonic()))
        if process.exitcode is None:
            process.kill()


def notes_of(places: dict[int, str], names: dict[int, str], ranks: dict[int, int | None]) -> list[str]:
    """A sentence for each place, with the processes that stood there."""
    at: dict[str, list[str]] = {}
    for pid, place in places.items():
        rank = ranks.get(pid)
        name = f"process `{names[pid]}`" if pid in names else f"process {pid}"
        at.setdefault(place, []).append(name if rank is None else f"rank {rank}")
    told = [
        f"{' and '.join(sorted(who))} {'was' if len(who) == 1 else 'were'} stopped at {place}"
        for place, who in at.items()
    ]
    return told[:MOST]
