"""TorchScript on virtual GPUs: scripted code runs eagerly, traced code remembers its devices.

The TorchScript interpreter asks C++ for devices and would be told "cpu". Scripting is therefore
switched off, as `PYTORCH_JIT=0` does. A trace bakes devices in as constants, which is a mistake
worth finding: while a function is traced, the device of each factory is noted, and when the trace
runs, the factories get it again. Where a factory's device is not known, nothing is said.
"""

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from samedevice.virtual.patches import Patches
from samedevice.virtual.places import here
from samedevice.virtual.provenance import Happened, reference

if TYPE_CHECKING:
    from samedevice.virtual.engine import Engine

#: attribute of a traced module or function: operator -> devices of its results while tracing
RECORD = "_samedevice_traced"

NOTE = "torch.jit.script is switched off on virtual GPUs: scripted code ran as plain Python"


def install(patches: Patches, engine: "Engine") -> None:
    """Switch scripting off; note devices while tracing and give them back while a trace runs."""
    script, save = torch.jit.script, torch.jit.save

    def eager(obj: Any = None, *args: Any, **kwargs: Any) -> Any:
        by_torch = str(sys._getframe(1).f_globals.get("__name__", "")).startswith("torch.")
        tracing = torch._C._get_tracing_state() is not None
        if not engine.active or by_torch or tracing or isinstance(obj, torch.jit.ScriptModule):
            if len(args) < 2:  # names are looked up in the caller's frame
                kwargs["_frames_up"] = kwargs.get("_frames_up", 0) + 1
            return script(obj, *args, **kwargs)
        if isinstance(obj, type):
            return obj
        engine.session.note(NOTE)
        return obj if isinstance(obj, torch.nn.Module) else _EagerFunction(obj, script)

    def save_scripted(m: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(m, torch.nn.Module) and not isinstance(m, torch.jit.ScriptModule):
            m = script(m)
        return save(m, *args, **kwargs)

    patches.set(torch.jit, "script", functools.wraps(script)(eager))
    patches.set(torch.jit, "save", functools.wraps(save)(save_scripted))

    trace = torch.jit.trace

    def traced(func: Any, *args: Any, **kwargs: Any) -> Any:
        state = engine.state
        record: dict[Any, set[int]] = {}
        before = (state.recording, state.replaying)
        state.recording = state.replaying = record
        try:
            with engine.exactly():
                result = trace(func, *args, **kwargs)
        finally:
            state.recording, state.replaying = before
        engine.session.record(Happened("traced", here(2), reference(result)))
        if isinstance(result, torch.nn.Module):
            result.__dict__[RECORD] = record
            return result
        return _TracedFunction(result, record, engine)

    patches.set(torch.jit, "trace", functools.wraps(trace)(traced))

    call = torch.jit.ScriptModule.__call__

    def replay(self: Any, *args: Any, **kwargs: Any) -> Any:
        record = self.__dict__.get(RECORD, engine.state.replaying or {})
        with _replaying(engine, record):
            return call(self, *args, **kwargs)

    patches.set(torch.jit.ScriptModule, "__call__", replay)


@contextmanager
def recorded_in_the_trace() -> Iterator[None]:
    """Let the tracer see what an operation calls, below a dispatch mode.

    A convolution is written into a trace as the `_convolution` that it calls, and a mode hides
    all that an operation calls from the tracer.
    """
    core = torch._C
    tracer = core.DispatchKeySet(core._parse_dispatch_key("Tracer"))
    include, exclude = core._dispatch_tls_local_include_set(), core._dispatch_tls_local_exclude_set()
    with core._ForceDispatchKeyGuard(include | tracer, exclude - tracer):
        yield


@contextmanager
def _replaying(engine: "Engine", record: dict[Any, set[int]]) -> Iterator[None]:
    """While traced code runs; the interpreter drops the text of our errors, which is put back."""
    state = engine.state
    before, state.replaying, state.refused = state.replaying, record, None
    try:
        with engine.exactly():  # the interpreter calls no torch function
            yield
    except RuntimeError as error:
        refused = state.refused
        if refused is None or "TorchScript interpreter" not in str(error):
            raise
        state.refused = None
        raise _as_torchscript_says(str(error), refused) from None
    finally:
        state.replaying = before


def _as_torchscript_says(text: str, refused: BaseException) -> BaseException:
    error = RuntimeError(f"{text.rstrip()} {refused}\n")
    error.samedevice_refusal = True  # type: ignore[attr-defined]
    error.samedevice_mistake = getattr(refused, "samedevice_mistake", None)  # type: ignore[attr-defined]
    return error


class _EagerFunction:
    """What `torch.jit.script(function)` gives: the function itself; TorchScript's attributes on demand."""

    def __init__(self, function: Callable[..., Any], script: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._script = script

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self._function, instance)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._script(self._function), name)


class _TracedFunction:
    """A traced function: runs the trace with the devices noted while tracing."""

    def __init__(self, function: Any, record: dict[Any, set[int]], engine: "Engine") -> None:
        self._function = function
        self._record = record
        self._engine = engine

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with _replaying(self._engine, self._record):
            return self._function(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)
