"""Records on a real device: one dispatch mode sees every copy and every read, CUDA events measure."""

import itertools
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from samedevice.model.errors import UserError
from samedevice.profile.recorder import Origin, Recorder
from samedevice.profile.stacks import stack
from samedevice.profile.watching import Watching, is_written, nbytes_of, shape_of

_aten: Final = torch.ops.aten
_Tensor: Final = torch.Tensor

#: operations after which the host knows something that only the GPU knew → reason
_READS: Final[dict[str, str]] = {
    "_local_scalar_dense": "item",
    "nonzero": "nonzero",
    "masked_select": "masked_select",
    "_unique2": "unique",
    "unique_dim": "unique",
    "unique_consecutive": "unique",
    "bincount": "bincount",
    "equal": "equal",
}

#: factories whose result another device could make as well
_FACTORIES: Final = frozenset(
    (
        "zeros",
        "ones",
        "full",
        "empty",
        "eye",
        "arange",
        "linspace",
        "logspace",
        "rand",
        "randn",
        "randint",
        "randperm",
    )
)

#: copies measured but not yet read out
_PENDING: Final = 512


class RealDevice(Watching):
    """Connects a recorder to the accelerator of this machine.

    Args:
        kinds: device types that count as the accelerator.
        measure: take times with CUDA events (copies) and the host's clock (waits).
    """

    def __init__(
        self,
        recorder: Recorder,
        kinds: tuple[str, ...] | None = None,
        measure: bool = True,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        super().__init__(recorder)
        self.kinds = kinds if kinds is not None else _accelerators()
        self.measure = measure
        self.clock = clock
        self._serials = itertools.count(1)
        recorder.seq = lambda: next(self._serials)
        self._pending: deque[tuple[tuple[int, int] | None, Any, Any]] = deque()

    def attach(self) -> None:
        """Enter the dispatch mode."""
        super().attach()
        mode = _Mode(self)
        mode.__enter__()
        self.undo.append(lambda: mode.__exit__(None, None, None))
        self.undo.append(lambda: self.read_out(0))

    def on_gpu(self, value: Any) -> bool:
        """A tensor of the accelerator."""
        return isinstance(value, _Tensor) and value.device.type in self.kinds

    def batch_came(self, batch: Any) -> None:
        """Label the storages of a batch."""
        pending = [batch]
        while pending:
            value = pending.pop()
            if isinstance(value, _Tensor):
                self._label(value, Origin("batched", "DataLoader"))
            elif isinstance(value, dict):
                pending.extend(value.values())
            elif isinstance(value, (list, tuple)):
                pending.extend(value)

    # -- one operation ---------------------------------------------------------------------------

    def operation(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an ATen operation and tell what it moved."""
        name = func._schema.name.partition("::")[2]
        if name in ("_to_copy", "copy_"):
            return self._copy(name, func, args, kwargs)
        reason = _READS.get(name)
        if reason is None and name in ("index", "index_put_", "index_put", "_index_put_impl_"):
            reason = self._mask(name, args)
        if reason is not None and args and self.on_gpu(args[0]):
            before = self.clock()
            result = func(*args, **kwargs)
            self.recorder.sync(
                reason,
                args[0].element_size(),
                function=name,
                shape=shape_of(args[0]),
                dtype=str(args[0].dtype).removeprefix("torch."),
                seconds=self.clock() - before if self.measure else None,
            )
            return result
        result = func(*args, **kwargs)
        if name in _FACTORIES and isinstance(result, _Tensor) and result.device.type == "cpu":
            place = stack().place
            self._label(result, Origin("created", f"torch.{name}", place, next(self._serials), factory=True))
        return result

    def _copy(self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if name == "_to_copy":
            source, target = args[0], kwargs.get("device")
            there = source.device if target is None else torch.device(target)
            non_blocking = bool(kwargs.get("non_blocking", False))
        else:
            source, there = args[1], args[0].device
            non_blocking = bool(args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
        if not isinstance(source, _Tensor) or source.device == there:
            return func(*args, **kwargs)
        here_is, there_is = source.device.type in self.kinds, there.type in self.kinds
        what = "d2d" if here_is and there_is else "d2h" if here_is else "h2d" if there_is else None
        if what is None:
            return func(*args, **kwargs)
        start = self._event(source.device if here_is else there)
        result = func(*args, **kwargs)
        end = self._event(source.device if here_is else there)
        host = source if what == "h2d" else result
        handle = self.recorder.transfer(
            what,
            nbytes_of(source),
            pinned=what != "d2d" and _is_pinned(host),
            non_blocking=non_blocking,
            function="Tensor.to" if name == "_to_copy" else "Tensor.copy_",
            dtype=str(source.dtype).removeprefix("torch."),
            shape=shape_of(source),
            content=self._content(source),
            origin=self._untouched(source),
            parameter=isinstance(source, torch.nn.Parameter),
        )
        if start is not None and end is not None:
            self._pending.append((handle, start, end))
            self.read_out(_PENDING)
        return result

    def _mask(self, name: str, args: tuple[Any, ...]) -> str | None:
        """An index with a mask makes the host ask for its count; filling one value does not."""
        indices = args[1] if len(args) > 1 else ()
        if name != "index" and isinstance(args[2], _Tensor) and args[2].numel() == 1:
            return None
        masks = (torch.bool, torch.uint8)
        return "mask" if any(isinstance(i, _Tensor) and i.dtype in masks for i in indices) else None

    # -- measuring -------------------------------------------------------------------------------

    def _event(self, device: torch.device) -> Any:
        if not self.measure or device.type != "cuda":
            return None
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(device))
        return event

    def read_out(self, most: int) -> None:
        """Read the times of copies until only `most` are pending."""
        while len(self._pending) > most:
            handle, start, end = self._pending.popleft()
            self.as_one(end.synchronize)
            self.recorder.measured(handle, start.elapsed_time(end) / 1e3)

    # -- storages --------------------------------------------------------------------------------

    def _label(self, tensor: Any, origin: Origin) -> None:
        try:
            tensor.untyped_storage()._samedevice_origin = origin
        except (RuntimeError, NotImplementedError, AttributeError):
            pass  # a layout without a storage of its own

    def _origin(self, tensor: Any) -> Origin | None:
        try:
            return getattr(tensor.untyped_storage(), "_samedevice_origin", None)
        except (RuntimeError, NotImplementedError):
            return None

    def _untouched(self, tensor: Any) -> Origin | None:
        """Its origin; what was written into since is no mere product of a factory."""
        origin = self._origin(tensor)
        if origin is not None and origin.factory and is_written(tensor):
            return replace(origin, factory=False)
        return origin

    def _content(self, tensor: Any) -> object:
        origin = self._origin(tensor)
        if origin is not None and origin.action == "batched":
            return None
        try:
            storage = tensor.untyped_storage()
            serial = getattr(storage, "_samedevice_serial", None)
            if serial is None:
                serial = storage._samedevice_serial = next(self._serials)
            return (serial, tensor.storage_offset(), tensor.numel(), tensor._version)
        except (RuntimeError, NotImplementedError, AttributeError):
            return None


class _Mode(TorchDispatchMode):
    def __init__(self, device: RealDevice) -> None:
        super().__init__()
        self.device = device

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.device.operation(func, args, kwargs or {})


def _is_pinned(tensor: Any) -> bool:
    try:
        return bool(tensor.is_pinned())
    except (RuntimeError, NotImplementedError):
        return False


def _accelerators() -> tuple[str, ...]:
    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if found is None:
        raise UserError("there is no GPU here for `--real`; leave it out to run on virtual GPUs")
    return (str(found.type),)
