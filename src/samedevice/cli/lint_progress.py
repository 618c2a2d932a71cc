"""A progress bar on one line of the terminal, for work that takes longer than a second."""

import time
from collections.abc import Callable
from typing import TextIO

#: seconds of work before anything is shown, and between two changes of it
PATIENCE = 1.0
PAUSE = 0.1
COLUMNS = 30


class Bar:
    """Called with the number of files done, with None at the end."""

    def __init__(self, total: int, stream: TextIO, clock: Callable[[], float] = time.perf_counter) -> None:
        self.total = total
        self.stream = stream
        self.clock = clock
        self.began = clock()
        self.next = self.began + PATIENCE
        self.shown = False

    def __call__(self, done: int | None) -> None:
        now = self.clock()
        if done is None:
            if self.shown:
                self.write("\r\x1b[K")
            return
        if now < self.next:
            return
        self.next = now + PAUSE
        self.shown = True
        full = min(done * COLUMNS // max(self.total, 1), COLUMNS)
        self.write(f"\r\x1b[K[{'#' * full}{'.' * (COLUMNS - full)}] {done}/{self.total} files")

    def write(self, text: str) -> None:
        """Write at once; a terminal that is gone is no reason to stop."""
        try:
            self.stream.write(text)
            self.stream.flush()
        except (OSError, ValueError):
            pass
