"""What one process of a run found, left in a folder that the processes of the run share."""

import os
import pickle
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from samedevice.model.diagnostic import Diagnostic
from samedevice.model.fix import Fix
from samedevice.source.writing import write_atomically

SUFFIX: Final = ".record"

#: a problem and the edits that may take it out, the best first
Finding = tuple[Diagnostic, tuple[Fix, ...]]


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """One process of a run.

    Attributes:
        pid: the process.
        started: when, in seconds of the system's clock.
        rank: its rank among several, None outside of a launcher.
        member: a rank that a launcher started, not a child of the program.
        node: number of its node among several.
        launcher: the process that started it, 0 when that does not matter.
        begun: when its program began, 0 before that.
        ended: how its program ended, None while it runs.
        status: exit status of its program.
        by_mistake: it died of a device mistake.
        ended_at: when its program ended.
        stood: where it was when it was stopped.
        refused: a mismatch was raised that could not be stepped over.
        notes: what the reader should know about its run.
    """

    pid: int
    started: float
    rank: int | None = None
    member: bool = False
    node: int = 0
    launcher: int = 0
    begun: float = 0.0
    ended: str | None = None
    status: int = 0
    by_mistake: bool = False
    ended_at: float = 0.0
    stood: str | None = None
    refused: bool = False
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    file: str = field(default="", compare=False)  # of the folder it was read from

    @property
    def alive(self) -> bool:
        """The process still runs."""
        return is_alive(self.pid)


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            return stream.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except (FileNotFoundError, ProcessLookupError):
        if os.path.isdir("/proc/self"):
            return False
    except (OSError, IndexError):
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def new_folder() -> str:
    """The name of a private folder for the records of one run; made by the first process that needs it."""
    return os.path.join(tempfile.gettempdir(), f"samedevice-{secrets.token_hex(8)}")


def make(folder: str) -> bool:
    """Make the folder unless it is there; says whether it is private."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError:
        return False
    return is_private(folder)


def is_private(folder: str) -> bool:
    """A real folder of this user that nobody else may write to: what lies in it may be unpickled."""
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    if not stat.S_ISDIR(found.st_mode):
        return False
    if not hasattr(os, "getuid"):
        return True
    return found.st_uid == os.getuid() and not found.st_mode & 0o022


def write(folder: str, name: str, record: ProcessRecord) -> None:
    """Write a record so that a reader sees the old one or the whole new one."""
    if not make(folder):
        return  # no record is better than a program that dies of it
    try:
        write_atomically(os.path.join(folder, name + SUFFIX), pickle.dumps(record), durable=False)
    except OSError:
        pass  # the disk is full, or the folder went away meanwhile


def read(folder: str) -> list[ProcessRecord]:
    """The records of a folder: ranks in order, then other processes as they started."""
    found: list[ProcessRecord] = []
    if not is_private(folder):
        return found
    for name in sorted(os.listdir(folder)):
        if not name.endswith(SUFFIX):
            continue
        try:
            with open(os.path.join(folder, name), "rb") as stream:
                record = pickle.load(stream)
        except (OSError, EOFError, pickle.UnpicklingError):
            continue  # it has just been taken away
        if isinstance(record, ProcessRecord):
            found.append(replace(record, file=name))
    return sorted(found, key=lambda r: (r.rank is None, r.rank or 0, not r.member, r.started, r.pid))


@contextmanager
def locked(folder: str) -> Iterator[None]:
    """One process at a time, where the system has locks on files."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with open(os.path.join(folder, "lock"), "a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
