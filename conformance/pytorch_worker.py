"""Runs tests of one of PyTorch's own test files in this process, and writes down what came of each.

Started by pytorch_tests.py, which goes on behind a test that kills this process.
"""

import argparse
import contextlib
import importlib
import json
import os
import resource
import signal
import sys
import time
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

#: a test that wants more would have the whole machine stop
MEMORY = 8 << 30
GPU_MEMORY = 2 << 30


class TimedOut(BaseException):
    """The test ran past its limit; no `except Exception` of a test may swallow it."""


class Journal(unittest.TestResult):
    """Writes a line when a test begins and one when it ends."""

    def __init__(self, out: TextIO, timeout: int) -> None:
        super().__init__()
        self.out = out
        self.timeout = timeout
        self.outcome: tuple[str, str] = ("passed", "")
        self.begin = 0.0

    def write(self, **event: Any) -> None:
        """One event."""
        self.out.write(json.dumps(event) + "\n")
        self.out.flush()

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        """The test begins."""
        super().startTest(test)
        self.outcome = ("passed", "")
        self.begin = time.perf_counter()
        self.write(begin=name_of(test))
        signal.setitimer(signal.ITIMER_REAL, self.timeout)

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        """The test has ended."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        super().stopTest(test)
        outcome, reason = self.outcome
        seconds = round(time.perf_counter() - self.begin, 2)
        self.write(end=name_of(test), outcome=outcome, reason=reason, seconds=seconds)

    def fails(self, test: Any, error: Any) -> None:
        """Keep the first failure of a test; one outside of a test is that of its class."""
        kind, value, traceback = error
        lines = [line for line in str(value).splitlines() if line.strip()] or [""]
        where = ""
        while traceback is not None:
            if Path(traceback.tb_frame.f_code.co_filename).name.startswith("test_"):
                where = f"{Path(traceback.tb_frame.f_code.co_filename).name}:{traceback.tb_lineno}"
            traceback = traceback.tb_next
        reason = f"{kind.__name__}: {' '.join(lines[:3])[:400]} [{where}]"
        if not isinstance(test, unittest.TestCase):
            self.write(end=str(test), outcome="failed", reason=reason, seconds=0)
        elif self.outcome[0] == "passed":
            self.outcome = ("timed out" if kind is TimedOut else "failed", reason)

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802
        """The test raised."""
        self.fails(test, err)

    def addFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        """An assertion failed."""
        self.fails(test, err)

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
        """A part of a test has ended."""
        if err is not None:
            self.fails(test, err)

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
        """The test does not apply."""
        self.outcome = ("skipped", reason[:200])

    def addExpectedFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        """It fails on CUDA too."""

    def addUnexpectedSuccess(self, test: Any) -> None:  # noqa: N802
        """It passes where CUDA would fail."""
        self.outcome = ("failed", "unexpected success")


def name_of(test: Any) -> str:
    """Class and method of a test."""
    return f"{type(test).__name__}.{getattr(test, '_testMethodName', test)}"


def tests_of(module: Any, device: str, every_class: bool) -> Iterator[unittest.TestCase]:
    """The tests whose class was made for the device, or all that the file has."""
    loader = unittest.TestLoader()
    for cls in list(vars(module).values()):
        if (
            not (isinstance(cls, type) and issubclass(cls, unittest.TestCase))
            or cls.__module__ != module.__name__
        ):
            continue
        if getattr(cls, "device_type", None) == device or (every_class and not hasattr(cls, "device_type")):
            for name in loader.getTestCaseNames(cls):
                yield cls(name)


def work(options: argparse.Namespace, out: TextIO) -> None:
    """List the tests, or run those named on standard input."""
    sys.argv = [options.file.name]
    sys.path.insert(0, str(options.file.parent))
    module = importlib.import_module(options.file.stem)
    tests = tests_of(module, options.device, options.every_class)
    journal = Journal(out, options.timeout)
    if options.list:
        journal.write(tests=[name_of(test) for test in tests])
        return
    wanted = set(sys.stdin.read().split())
    unittest.TestSuite(test for test in tests if name_of(test) in wanted).run(journal)
    journal.write(finished=True)


def main() -> None:
    """Answer pytorch_tests.py."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--events", type=Path, required=True)
    parser.add_argument("--device", choices=["cuda", "cpu"], required=True)
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--timeout", type=int, default=30)
    parser.add_argument("--every-class", action="store_true")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, _out_of_time)
    # Read while torch.testing._internal is imported.
    os.environ["PYTORCH_TESTING_DEVICE_ONLY_FOR"] = options.device
    with options.events.open("a") as out, contextlib.ExitStack() as stack:
        if options.device == "cuda":
            import samedevice

            stack.enter_context(samedevice.virtual_gpus(options.gpus, gpu_memory=GPU_MEMORY))
        work(options, out)
    # Threads that a test left behind must not keep the process.
    os._exit(0)


def _out_of_time(*_: Any) -> None:
    raise TimedOut


if __name__ == "__main__":
    main()
