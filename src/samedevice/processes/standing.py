"""Where a process stands: asked by a signal, it writes its frames into a file, also while it waits in C++.

Python runs its signal handlers between instructions; `faulthandler` writes from the handler itself.
"""

import faulthandler
import os
import re
import signal
import time
from typing import IO, Any, Final

from samedevice.processes import record as records
from samedevice.program.files import USER, kind_of, shown

SUFFIX: Final = ".standing"
#: of the real-time signals, which have no meaning; None where there are none
SIGNAL: Final[int | None] = (
    signal.SIGRTMIN + 9 if hasattr(signal, "SIGRTMIN") and hasattr(faulthandler, "register") else None
)
#: seconds that processes get to answer
PATIENCE: Final = 2.0

_FRAME: Final = re.compile(r'  File "(.*)", line (\d+) in (.*)')
_CAUGHT: Final = re.compile(r"^SigCgt:\s*([0-9a-f]+)$", re.MULTILINE)

#: kept open as long as the process lives
_answer: IO[Any] | None = None


def answer(folder: str) -> None:
    """Let this process write where it stands into `folder` whenever it is asked."""
    global _answer
    if SIGNAL is None or not records.make(folder):
        return
    try:
        path = os.path.join(folder, f"{os.getpid()}{SUFFIX}")
        stream = open(path, "wb", buffering=0)  # noqa: SIM115
        faulthandler.register(SIGNAL, stream, all_threads=False, chain=False)
    except (OSError, RuntimeError, ValueError):
        return  # no place is better than a program that dies of it
    _answer = stream


def ask(folder: str) -> dict[int, str]:
    """Where the processes stand that have left their files in `folder`: pid -> place, for those in user code."""
    asked: dict[int, str] = {}
    if SIGNAL is None or not records.is_private(folder):
        return {}
    for name in os.listdir(folder):
        pid = name.removesuffix(SUFFIX)
        if name.endswith(SUFFIX) and pid.isdigit() and int(pid) != os.getpid() and _catches(int(pid)):
            asked[int(pid)] = os.path.join(folder, name)
            os.kill(int(pid), SIGNAL)
    until = time.monotonic() + PATIENCE
    told = dict.fromkeys(asked, "")
    while time.monotonic() < until:
        before = told
        told = {pid: _read(path) for pid, path in asked.items()}
        if told == before and all(text for pid, text in told.items() if records.is_alive(pid)):
            break
        time.sleep(0.05)
    places = {pid: place_in(text) for pid, text in told.items()}
    return {pid: place for pid, place in sorted(places.items()) if place is not None}


def place_in(text: str) -> str | None:
    """The innermost line of user code in what `faulthandler` wrote; None when a library waits for work."""
    import linecache

    for filename, line, function in _FRAME.findall(text):
        if function == "_bootstrap" and filename.endswith(os.path.join("multiprocessing", "process.py")):
            return None  # what follows are the frames of the process that was forked
        path = filename.encode("ascii", "replace").decode("unicode_escape") if "\\" in filename else filename
        if kind_of(path) == USER:
            source = linecache.getline(path, int(line)).strip()
            return f"{shown(path)}:{line}" + (f", `{source}`" if source else "")
    return None


def _catches(pid: int) -> bool:
    """Whether the process is still one that answers: the signal would end any other."""
    try:
        with open(f"/proc/{pid}/status") as stream:
            found = _CAUGHT.search(stream.read())
    except OSError:
        return False
    return found is not None and SIGNAL is not None and bool(int(found[1], 16) >> (SIGNAL - 1) & 1)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""
