"""Progress of long work as whole lines, ever less often: the program's own output stays intact."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

#: seconds after which lines appear; from then on every minute
SCHEDULE = (3.0, 10.0, 20.0, 40.0)


class ProgressLines:
    """Writes `line()` to a stream in the background while a block runs."""

    def __init__(self, line: Callable[[], str], stream: TextIO) -> None:
        self._line = line
        self._stream = stream
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._work, name="samedevice-progress", daemon=True)

    def __enter__(self) -> "ProgressLines":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join()

    def _work(self) -> None:
        elapsed = 0.0
        waits = iter(SCHEDULE)
        while True:
            due = next(waits, elapsed + 60.0)
            if self._done.wait(due - elapsed):
                return
            elapsed = due
            try:
                self._stream.write(self._line() + "\n")
                self._stream.flush()
            except (OSError, ValueError):
                return  # the stream is gone; progress is not worth an error
