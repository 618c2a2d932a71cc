"""A rank can be stopped wherever it is, also in the middle of a collective that waits for another rank.

Python runs its signal handlers between instructions, so a rank that waits in C++ does not see a time
limit or a request to end. A thread does: signals are written to a pipe that it reads.
"""

import _thread
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

#: seconds that a program gets to unwind
GRACE: Final = 5.0
#: seconds that ranks give each other to note where they stand
TOGETHER: Final = 2.0

_watching: "Watch | None" = None


class Ended(BaseException):
    """The launcher asks this process to end; a BaseException, so that the program does not catch it."""


class Watch:
    """Watches over the main thread of a rank.

    Args:
        time_up: makes the exception that the time limit raises, when it is raised.
        deadline: when time is up, in seconds of the system's clock; None while that is not known. It is
            asked again each time, because all ranks have one deadline.
        noted: called with "time", "ended" or "interrupted" in the thread, before anything is stopped.
        force: ends the process, with the same word, when the main thread does not.
    """

    def __init__(
        self,
        time_up: Callable[[], BaseException],
        deadline: Callable[[], float | None] | None,
        noted: Callable[[str, FrameType | None], None],
        force: Callable[[str], None],
    ) -> None:
        self.time_up = time_up
        self.deadline = deadline
        self.noted = noted
        self.force = force
        self.interrupted = False
        self._main = threading.main_thread().ident or 0
        self._owner = os.getpid()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """For the time of the block, which the main thread runs."""
        global _watching
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        handlers: dict[int, Any] = {
            number: signal.signal(number, handler)
            for number, handler in (
                (signal.SIGTERM, self._end),
                (signal.SIGALRM, self._time_is_up),
                (signal.SIGINT, self._interrupt),
            )
        }
        _watching = self
        done = _thread.allocate_lock()
        done.acquire()
        _thread.start_new_thread(self._watch, (reader, done))
        try:
            yield
        finally:
            if os.getpid() == self._owner:
                _watching = None
                for number, handler in handlers.items():
                    signal.signal(number, handler)
                signal.set_wakeup_fd(wakeup)
                os.close(writer)
                done.acquire()
                os.close(reader)

    def _watch(self, reader: int, done: Any) -> None:
        try:
            reason = self._wait(reader)
            if reason is None:
                return
            self.noted(reason, sys._current_frames().get(self._main))
            if reason == "time":
                signal.pthread_kill(self._main, signal.SIGALRM)
            until = time.monotonic() + GRACE
            while (rest := until - time.monotonic()) > 0:
                if select.select([reader], [], [], rest)[0] and not os.read(reader, 512):
                    return
            if reason == "interrupted" and (
                self.interrupted or signal.getsignal(signal.SIGINT) != self._interrupt
            ):
                return  # the program deals with it
            self.force(reason)
        finally:
            done.release()

    def _wait(self, reader: int) -> str | None:
        """Until something is to be done: "time", "ended" or "interrupted"; None when the block is left."""
        while True:
            at = None if self.deadline is None else self.deadline()
            pause = None if self.deadline is None else 0.2 if at is None else max(0.0, at - time.time())
            if select.select([reader], [], [], pause)[0]:
                signals = os.read(reader, 512)
                if not signals:
                    return None
                if signal.SIGTERM in signals:
                    return "ended"
                if signal.SIGINT in signals:
                    return "interrupted"
            elif at is not None and self.deadline is not None:
                again = self.deadline()
                if again is not None and again <= time.time():
                    return "time"

    def _end(self, number: int, frame: FrameType | None) -> None:
        raise Ended

    def _time_is_up(self, number: int, frame: FrameType | None) -> None:
        raise self.time_up()

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self.interrupted = True
        raise KeyboardInterrupt


def _in_child() -> None:
    """A forked child has no such thread, and its signals are not its parent's."""
    global _watching
    if _watching is None:
        return
    _watching = None
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
