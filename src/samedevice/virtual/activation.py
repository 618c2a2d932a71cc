"""Switching virtual GPUs on and off: modes, patches, threads."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch

from samedevice.model.errors import UserError
from samedevice.virtual import (
    callbacks,
    children,
    creation,
    distributed,
    edges,
    events,
    functions,
    gradients,
    hooks,
    importers,
    loaders,
    properties,
    surface,
    torchscript,
    warned,
    wrappers,
)
from samedevice.virtual.engine import Engine
from samedevice.virtual.functions import Functions
from samedevice.virtual.machine import Machine
from samedevice.virtual.mismatches import Diagnoser
from samedevice.virtual.modes import VirtualDispatchMode, VirtualFunctionMode
from samedevice.virtual.patches import Patches
from samedevice.virtual.provenance import Session
from samedevice.virtual.surface import generators

_running: "Activation | None" = None
_lock = threading.Lock()


class Activation:
    """One entered `virtual_gpus` block."""

    def __init__(
        self,
        machine: Machine,
        on_mismatch: str,
        diagnoser: Diagnoser | None,
        session: Session | None,
        max_batches: int | None = None,
        exact: bool = False,
        folder: str | None = None,
    ) -> None:
        self.machine = machine
        self.max_batches = max_batches
        self.engine = Engine(machine, session or Session(), on_mismatch, diagnoser, exact)
        self.patches = Patches()
        self.children = self.engine.children = children.Children(self, folder)
        #: the block of a parent process, which one of this process's own replaces
        self.inherited = False
        self._entered = threading.local()

    def enter(self) -> None:
        """Patch torch and enter the modes on this thread.

        Raises:
            UserError: virtual GPUs are on already.
        """
        global _running
        with _lock:
            if _running is not None:
                raise UserError("virtual GPUs are already on; leave that block before entering another")
            _running = self
        try:
            surface.install(self.patches, self.machine, self)
            distributed.install(self.patches, self)
            functions.see_through_python_functions(self.patches)
            gradients.install(self.patches, self.engine)
            hooks.install(self.patches, self.engine)
            edges.install(self.patches, self.engine)
            loaders.install(self.patches, self.engine, self.max_batches)
            events.install(self.patches, self.engine)
            callbacks.install(self.patches, self)
            creation.install(self.patches, self.engine)
            properties.install(self.patches, self.engine)
            torchscript.install(self.patches, self.engine)
            wrappers.install(self.patches, self.engine)
            warned.install(self.patches)
            self.children.install(self.patches)
            importers.follow(self.patches)
            self.engine.entered_again = self.entered_again
            self.functions = Functions(self.engine, surface.HANDLERS)
            self.enter_thread()
        except BaseException:
            self.patches.undo()
            _running = None
            raise

    def leave(self) -> None:
        """Leave the modes and undo every patch."""
        global _running
        self.engine.active = False
        try:
            self.leave_thread()
        finally:
            self.patches.undo()
            self.children.leave()
            with _lock:
                _running = None

    @contextmanager
    def resized(self, count: int) -> Iterator[None]:
        """For a while, a machine with another number of GPUs; tensors stay where they are."""
        machine = self.machine
        before, current, seen = machine.count, machine.current, torch.cuda._cached_device_count
        self._resize(count, None)
        machine.current = current if current < count else 0
        try:
            yield
        finally:
            self._resize(before, seen)
            machine.current = current

    def _resize(self, count: int, seen: int | None) -> None:
        self.machine.resize(count)
        torch.cuda.default_generators = generators.defaults(self.machine)
        torch.cuda._cached_device_count = seen
        self.children.refresh()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """For a while, the machine as it is without virtual GPUs."""
        self.leave()
        try:
            yield
        finally:
            self.engine.active = True
            self.enter()
            if self.machine.initialized:
                torch.cuda._lazy_init()

    @property
    def session(self) -> Session:
        """What the run recorded."""
        return self.engine.session

    def note(self, text: str) -> None:
        """Say something about the run, once."""
        self.engine.session.note(text)

    def enter_thread(self) -> None:
        """Enter the modes on the calling thread (they are thread-local)."""
        if not self.engine.active or getattr(self._entered, "modes", None):
            return
        function_mode = VirtualFunctionMode(self.functions)
        dispatch_mode = VirtualDispatchMode(self.engine)
        # set_default_device puts its own mode at the bottom of the stack; ours stays above it.
        function_mode.__enter__()
        state = self.engine.state
        state.dispatch_mode = dispatch_mode
        if self.engine.exact:
            dispatch_mode.__enter__()
            state.exact = 1
        self._entered.modes = (function_mode, dispatch_mode)

    def leave_thread(self) -> None:
        """Leave the modes on the calling thread."""
        modes = getattr(self._entered, "modes", None)
        if not modes:
            return
        self._entered.modes = None
        function_mode, dispatch_mode = modes
        if self.engine.exact:
            dispatch_mode.__exit__(None, None, None)
            self.engine.state.exact = 0
        self.engine.state.dispatch_mode = None
        function_mode.__exit__(None, None, None)

    @contextmanager
    def entered_again(self) -> Iterator[None]:
        """The modes, for user code that C++ calls back while they are popped."""
        with ExitStack() as stack:
            stack.enter_context(torch._C._EnableTorchFunction())
            if not _on_function_stack():
                stack.enter_context(VirtualFunctionMode(self.functions))
            if self.engine.state.exact and not _on_dispatch_stack():
                stack.enter_context(VirtualDispatchMode(self.engine))
            yield


def _on_function_stack() -> bool:
    depth = torch._C._len_torch_function_stack()
    return any(isinstance(torch._C._get_function_stack_at(i), VirtualFunctionMode) for i in range(depth))


def _on_dispatch_stack() -> bool:
    depth = torch._C._len_torch_dispatch_stack()
    return any(isinstance(torch._C._get_dispatch_stack_at(i), VirtualDispatchMode) for i in range(depth))


def running() -> Activation | None:
    """The entered block, None outside of one."""
    return _running
