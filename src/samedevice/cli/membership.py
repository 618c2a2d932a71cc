"""`check` as one rank of several: it leaves what it finds with the others', and the last one reports."""

import hashlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from samedevice.model.errors import UserError
from samedevice.processes import record as records
from samedevice.processes.record import ProcessRecord
from samedevice.processes.settings import VARIABLE
from samedevice.processes.summary import Summary, latest, summarise, world_of_environment
from samedevice.processes.watch import TOGETHER, Watch

#: seconds that a rank waits for the report of the last one, once all have ended
PATIENCE: Final = 30.0


class Member:
    """This process as a rank.

    Attributes:
        launched: started by `check --nproc-per-node`, which reports; else the last rank to end does.
        reporter: writes this rank's record once virtual GPUs are on.
    """

    def __init__(self, folder: str, *, launched: bool) -> None:
        self.folder = folder
        self.launched = launched
        self.rank = number("RANK")
        self.reporter: Any = None
        self.gpus = 1
        self.limit: float | None = None
        self.report: Callable[[Summary], None] = lambda summary: None
        self.record = ProcessRecord(
            os.getpid(),
            time.time(),
            rank=self.rank,
            member=True,
            node=number("GROUP_RANK"),
            launcher=os.getppid(),
        )
        #: torchrun has started ranks on several nodes
        self.nodes = number("GROUP_WORLD_SIZE") > 1
        self.name = f"rank-{self.rank}-{self.record.pid}"
        if launched:
            records.write(folder, self.name, self.record)
            return
        with records.locked(folder):
            for other in records.read(folder):
                if other.launcher and not records.is_alive(other.launcher):
                    os.unlink(os.path.join(folder, other.file))  # of an earlier run that was cut off
            records.write(folder, self.name, self.record)

    def attach(self, reporter: Any) -> None:
        """Virtual GPUs are on: what is found goes into this rank's record."""
        self.reporter = reporter
        reporter.adopt(self.name, self.record)

    @contextmanager
    def watching(self, limit: float | None, time_up: Callable[[], BaseException]) -> Iterator[None]:
        """While the program runs: it can be stopped wherever it is."""
        self.limit = limit
        self.reporter.write(begun=time.time())
        if not hasattr(signal, "pthread_kill"):  # Windows
            yield
            return
        watch = Watch(time_up, None if limit is None else self._deadline, self._noted, self._force)
        with watch.watching():
            yield

    def _deadline(self) -> float | None:
        """The ranks' common deadline: the limit counts from when the last one began."""
        members = latest(records.read(self.folder))
        begun = [m.begun for m in members if m.begun]
        if not begun or self.limit is None or any(not m.begun and m.alive for m in members):
            return None
        return max(begun) + self.limit

    def _noted(self, reason: str, frame: FrameType | None) -> None:
        """Write down where this rank stands; when time is up, wait until all have."""
        self.reporter.write(stood=place_of(frame))
        until = time.monotonic() + TOGETHER
        while reason == "time" and time.monotonic() < until:
            members = latest(records.read(self.folder))
            if all(m.stood is not None or m.ended is not None or not m.alive for m in members):
                return
            time.sleep(0.05)

    def _force(self, reason: str) -> None:
        """The program does not unwind: end the process from the watching thread."""
        ended, status = {
            "time": (self.stopped, 0),
            "ended": ("ended by SIGTERM", 128 + signal.SIGTERM),
            "interrupted": ("interrupted", 130),
        }[reason]
        code = self.leave(ended, status, by_mistake=False, at=time.time())
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                pass  # nobody reads it any more
        os._exit(code)

    @property
    def stopped(self) -> str:
        """How a program ended whose time was up."""
        return f"stopped after {self.limit:g} s"

    def leave(self, ended: str, status: int, *, by_mistake: bool, at: float) -> int:
        """This rank has ended; the last one of this machine reports. Returns the exit status."""
        end = {"ended": ended, "status": status, "by_mistake": by_mistake, "ended_at": at}
        well = ended == "finished" or ended.startswith("stopped")
        own = 0 if well else status if status > 2 else 1 if by_mistake else 2
        if self.launched:
            self.reporter.write(**end)
            return own
        with records.locked(self.folder):
            # Written under the lock: of two that end at once, one sees that the other has not.
            self.reporter.write(**end)
            found = records.read(self.folder)
            members = latest(found)
            waiting = [m for m in members if m.ended is None and m.pid != os.getpid() and m.alive]
            here = sum(m.node == self.record.node for m in members)
            last = not waiting and (not well or here >= number("LOCAL_WORLD_SIZE"))
            if last and not self.nodes:
                shutil.rmtree(self.folder, ignore_errors=True)
        if not last:
            return self._status_of_all(own) if self.nodes and well else own
        summary = summarise(found, gpus=self.gpus, world=world_of_environment())
        self.report(summary)
        if self.nodes:
            with open(os.path.join(self.folder, "status"), "w") as stream:
                stream.write(str(summary.status))
            self._depart()
        return summary.status

    def _status_of_all(self, own: int) -> int:
        """What the last rank ends with: torchrun's agents wait minutes for one whose ranks end otherwise."""
        patience = PATIENCE
        while patience > 0:
            try:
                with open(os.path.join(self.folder, "status")) as stream:
                    own = int(stream.read())
                break
            except (OSError, ValueError):
                pass  # not yet
            if all(m.ended is not None or not m.alive for m in latest(records.read(self.folder))):
                patience -= 0.1
            time.sleep(0.1)
        self._depart()
        return own

    def _depart(self) -> None:
        """Take this rank's record away, and the folder with the last one."""
        try:
            with records.locked(self.folder):
                for other in records.read(self.folder):
                    if other.pid == os.getpid() or not other.alive:
                        os.unlink(os.path.join(self.folder, other.file))
                if not records.read(self.folder):
                    shutil.rmtree(self.folder, ignore_errors=True)
        except OSError:
            pass  # somebody else has taken it away


def member_of(folder: str | None) -> Member | None:
    """This process as a rank: of `check --nproc-per-node`, which names a folder, or of torchrun."""
    if folder is not None:
        return Member(folder, launched=True)
    needed = ("TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
    if any(name not in os.environ for name in needed) or VARIABLE in os.environ:
        return None
    return Member(shared_folder(), launched=False)


def shared_folder() -> str:
    """The folder of this run's ranks: all of a machine find it by what their launcher has told them.

    Raises:
        UserError: it cannot be made, or belongs to somebody else.
    """
    told = [os.environ.get(f"TORCHELASTIC_{name}", "") for name in ("RUN_ID", "RESTART_COUNT")]
    told += [os.environ.get(f"MASTER_{name}", "") for name in ("ADDR", "PORT")]
    if os.environ.get("GROUP_WORLD_SIZE", "1") == "1":
        told.append(str(os.getppid()))
    key = hashlib.sha256("\0".join(told).encode()).hexdigest()[:16]
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = os.path.join(tempfile.gettempdir(), f"samedevice-ranks-{user}-{key}")
    if not records.make(folder):
        raise UserError(f"cannot use `{folder}` for what the ranks find: it is not a folder of your own")
    return folder


def one_of_others() -> bool:
    """Whether this is a rank other than the first."""
    return "WORLD_SIZE" in os.environ and number("RANK") > 0


def number(name: str) -> int:
    """A whole number of the environment, 0 where there is none."""
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() else 0


def place_of(frame: FrameType | None) -> str:
    """Where a thread is, in the user's own code if it can be said."""
    import linecache

    from samedevice.program.files import shown
    from samedevice.program.frames import stack, user_frames

    frames = user_frames(frame) or stack(frame)
    if not frames:
        return "its end"
    at = frames[-1]
    path, line = at.f_code.co_filename, at.f_lineno
    text = linecache.getline(path, line).strip()
    return f"{shown(path)}:{line}" + (f", `{text}`" if text else "")
