"""The virtual GPUs of a test session: there from the start, or for one test, or another number for one."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import torch

from samedevice.program.running import without_own_frames
from samedevice.pytest_plugin.explaining import explanation_of
from samedevice.virtual.activation import Activation, running
from samedevice.virtual.diagnose import Diagnoser
from samedevice.virtual.gpus import virtual_gpus


class VirtualGpus:
    """What the `virtual_gpus` fixture gives: the GPUs that the test sees."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.devices = tuple(torch.device("cuda", index) for index in range(count))

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.device:
        return self.devices[index]

    def __iter__(self) -> Iterator[torch.device]:
        return iter(self.devices)

    def __repr__(self) -> str:
        return f"<{self.count} virtual GPU{'' if self.count == 1 else 's'}>"


class Gpus:
    """Gives GPUs to a session and its tests, and explains what CUDA would refuse.

    Attributes:
        count: how many all tests have; 0 when only those that ask get some.
        memory: bytes of each, None for the usual size.
        notes: what the reader should know of the run as a whole.
    """

    def __init__(self, count: int = 0, memory: int | None = None) -> None:
        self.count = count
        self.memory = memory
        self.notes: dict[str, None] = {}
        self._diagnoser = Diagnoser()
        self._stack = ExitStack()
        self._allocations = 0
        self._asked: int | None = None

    def start(self) -> None:
        """Have `count` GPUs until `stop`.

        Raises:
            UserError: torch is missing, or it is no number of GPUs that a machine can have.
        """
        self._stack.enter_context(self._having(self.count))

    def stop(self) -> None:
        """The machine is as it was before `start`."""
        self._stack.close()

    @contextmanager
    def _having(self, count: int) -> Iterator[None]:
        activation = running()
        if activation is None and not count:
            yield
        elif activation is None or activation.inherited:
            with virtual_gpus(count, "raise", gpu_memory=self.memory, diagnoser=self._diagnoser) as engine:
                try:
                    yield
                finally:
                    self.notes.update(engine.session.notes)
        elif not count:
            with activation.paused():
                yield
        elif count != activation.machine.count:
            # Also under `samedevice check -m pytest`, whose GPUs these are.
            with activation.resized(count):
                yield
        else:
            yield

    @contextmanager
    def test(self, asked: int | None) -> Iterator[None]:
        """One test with the number of GPUs that it asks for, None for the session's."""
        self._begin()
        self._asked = asked
        with self._as_asked(asked):
            activation = running()
            if activation is not None:
                # Whatever thread the test runs on.
                activation.enter_thread()
                self._allocations = _allocations(activation)
            yield

    def _as_asked(self, asked: int | None) -> AbstractContextManager[None]:
        if asked is None and not self.count:
            # As it is, also under `samedevice check -m pytest`.
            return nullcontext()
        return self._having(self.count if asked is None else asked)

    def _begin(self) -> None:
        """One test's mistakes and dead tensors say nothing of the next one's."""
        activation = running()
        if activation is None or activation.engine.diagnoser is self._diagnoser:
            self._diagnoser.forget()
            if activation is not None:
                activation.session.forget_the_dead()

    @contextmanager
    def given(self) -> Iterator[VirtualGpus]:
        """The GPUs for the fixture: those that are there, one where none are and nobody asked for none."""
        activation = running()
        if activation is not None or self._asked == 0:
            yield VirtualGpus(0 if activation is None else activation.machine.count)
            return
        with self._having(1):
            yield VirtualGpus(1)

    @contextmanager
    def current_device_kept(self) -> Iterator[None]:
        """Which GPU is the current one is afterwards as before."""
        activation = running()
        if activation is None:
            yield
            return
        machine = activation.machine
        before = machine.current
        try:
            yield
        finally:
            machine.current = before

    def hide_own_frames(self, error: BaseException) -> None:
        """A traceback ends where it would end on CUDA: at the call into torch."""
        without_own_frames(error)

    def note_on(self, report: Any, call: Any, width: int) -> None:
        """Say on a report what the test ran on, and why it failed if that is a device mistake."""
        activation = running()
        if activation is None:
            return
        found: dict[str, Any] = {"gpus": activation.machine.count}
        if getattr(report, "when", None) == "call":
            found["used"] = _allocations(activation) > self._allocations
        if report.failed and call.excinfo is not None:
            told = explanation_of(call.excinfo.value, activation.machine.count, width)
            if told is not None:
                found.update(told)
        report.samedevice = found
        if "lines" in found:
            from samedevice.pytest_plugin.display import add_section

            add_section(report)

    def all_notes(self) -> Iterator[str]:
        """What the reader should know of the run, each note once."""
        activation = running()
        if activation is not None:
            self.notes.update(activation.session.notes)
        return iter(self.notes)


def _allocations(activation: Activation) -> int:
    """How often something came to be on a GPU."""
    return sum(memory.allocations for memory in activation.machine.memories)
