"""What each thread of a program on virtual GPUs is doing."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch

from samedevice.model.scene import Action
from samedevice.virtual.provenance import Birth
from samedevice.virtual.tags import CPU

_DisableTorchFunction: Final = torch._C.DisableTorchFunction


class ThreadState:
    """What one thread is doing.

    Attributes:
        call: (function, args, kwargs) of the innermost torch function seen by the function mode.
        target: device that new storages get, None when the operands decide.
        action, function: what a birth is recorded as while `target` is set.
        source: birth of the tensor that is being moved.
        explicit: whether the call named its device.
        quiet: no checks: samedevice's own operations.
        dispatch_mode: the thread's dispatch mode, which the exact tier puts on the stack.
        exact: how many exact sections the thread is in.
        recording: operator -> devices of factories, while a function is traced by `torch.jit.trace`.
        replaying: the same of the traced code that runs, empty when its devices are not known.
        refused: the last exception raised for a mismatch in traced code, whose text TorchScript drops.
        last_device: where the last operation was; a gradient nobody placed is there.
    """

    __slots__ = (
        "action",
        "call",
        "dispatch_mode",
        "exact",
        "explicit",
        "function",
        "last_device",
        "quiet",
        "recording",
        "refused",
        "replaying",
        "source",
        "target",
    )

    def __init__(self) -> None:
        self.call: tuple[Any, Any, Any] | None = None
        self.target: int | None = None
        self.action: Action | None = None
        self.function: str | None = None
        self.source: Birth | None = None
        self.explicit: bool | None = None
        self.dispatch_mode: Any = None
        self.exact = 0
        self.quiet = False
        self.refused: BaseException | None = None
        self.recording: dict[Any, set[int]] | None = None
        self.replaying: dict[Any, set[int]] | None = None
        self.last_device = CPU


class ThreadStates:
    """The states of all threads, and the blocks that change the calling one's for a while."""

    def __init__(self) -> None:
        self._states = threading.local()

    @property
    def state(self) -> ThreadState:
        """The calling thread's state."""
        try:
            return self._states.state
        except AttributeError:
            state = self._states.state = ThreadState()
            return state

    @contextmanager
    def exactly(self) -> Iterator[None]:
        """Judge every ATen operation of the block: the dispatch mode is on the stack."""
        state = self.state
        mode = state.dispatch_mode
        if state.exact or mode is None:
            yield
            return
        state.exact = 1
        mode.__enter__()
        try:
            yield
        finally:
            mode.__exit__(None, None, None)
            state.exact = 0

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Our own look at tensors: no checks, no births, torch functions as they are."""
        state = self.state
        before = state.quiet
        state.quiet = True
        try:
            with (
                _DisableTorchFunction(),
                torch.utils._python_dispatch._disable_current_modes(),
                torch.no_grad(),
            ):
                yield
        finally:
            state.quiet = before
