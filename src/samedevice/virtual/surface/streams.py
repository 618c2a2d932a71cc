"""Streams and events: every stream is in order with every other, since the CPU runs at once."""

import ctypes
import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import torch

from samedevice.virtual.errors import invalid_ordinal
from samedevice.virtual.machine import Machine
from samedevice.virtual.patches import Patches

_RealStream: Any = torch._C.Stream
_RealEvent: Any = torch._C.Event

#: c10::DeviceType::CUDA
_CUDA = 1
#: torch hands out 32 streams of each priority in turn
_POOL = 32


class _StandIn(type):
    """Instances of what a class stands in for count as its own."""

    replaces: Any = None

    def __instancecheck__(cls, instance: Any) -> bool:
        real = cls.__dict__.get("replaces")
        return type.__instancecheck__(cls, instance) or (real is not None and isinstance(instance, real))


class _Streams:
    """Which stream is current on each GPU, by thread; a new thread starts on the default ones."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.numbers: dict[int, Iterator[int]] = defaultdict(lambda: itertools.cycle(range(1, _POOL + 1)))
        self.external: dict[int, int] = {}
        self._local = threading.local()

    @property
    def current(self) -> dict[int, int]:
        """Stream id by GPU."""
        try:
            return self._local.current
        except AttributeError:
            found: dict[int, int] = {}
            self._local.current = found
            return found

    def check(self, index: int) -> int:
        """A GPU's index, -1 being the current one."""
        if index < 0:
            return self.machine.current
        if index >= self.machine.count:
            raise invalid_ordinal()
        return index

    def index_of(self, device: Any) -> int:
        """The GPU that an argument names."""
        torch.cuda._lazy_init()
        if device is None:
            return self.machine.current
        if isinstance(device, int):
            return self.check(device)
        where = torch.device(device)
        return self.check(-1 if where.index is None else where.index)

    def wrap(self, pointer: int) -> int:
        """The id of another library's stream."""
        number = (1 << 32) + int(pointer)
        self.external[number] = int(pointer)
        return number

    def handle(self, index: int, number: int) -> int:
        """An address that tells streams apart; 0 is the default stream."""
        if number == 0:
            return 0
        return self.external.get(number, 0x1000 * (index + 1) + 16 * number)


def _is_other(device: Any) -> bool:
    return device is not None and not isinstance(device, int) and torch.device(device).type != "cuda"


class Stream(metaclass=_StandIn):
    """`torch.Stream` of a virtual GPU."""

    replaces = _RealStream
    _streams: _Streams
    stream_id: int
    device_index: int
    device_type: int
    priority: int
    _event: Any

    def __new__(
        cls,
        device: Any = None,
        *,
        priority: int = 0,
        stream_id: int | None = None,
        device_index: int | None = None,
        device_type: int | None = None,
    ) -> Any:
        if _is_other(device) or device_type not in (None, _CUDA):
            keywords: Any = {"priority": priority}
            if stream_id is not None:
                keywords |= {"stream_id": stream_id, "device_index": device_index, "device_type": device_type}
            return _RealStream(*(() if device is None else (device,)), **keywords)
        streams = cls._streams
        self = object.__new__(cls)
        if stream_id is not None:
            self.device_index = streams.check(-1 if device_index is None else device_index)
            self.stream_id = stream_id
        else:
            self.device_index = streams.index_of(device)
            self.stream_id = next(streams.numbers[self.device_index])
        self.device_type = _CUDA
        self.priority = priority
        return self

    @property
    def device(self) -> torch.device:
        """The GPU of the stream."""
        return torch.device("cuda", self.device_index)

    @property
    def cuda_stream(self) -> int:
        """An address that tells streams apart; 0 is the default stream."""
        return self._streams.handle(self.device_index, self.stream_id)

    native_handle = cuda_stream

    @property
    def _as_parameter_(self) -> Any:
        return ctypes.c_void_p(self.cuda_stream)

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Lowest and highest priority."""
        return 0, -3

    def query(self) -> bool:
        """All work is done: it was when the call returned."""
        return True

    def synchronize(self) -> None:
        """Nothing is outstanding."""

    def is_capturing(self) -> bool:
        """Whether a graph is captured on it."""
        return torch.cuda.is_current_stream_capturing() and self == torch.cuda.current_stream()

    def record_event(self, event: Any = None) -> Any:
        """Record an event here and now; a new one unless given."""
        if event is None:
            event = type(self)._event()
        event.record(self)
        return event

    def wait_event(self, event: Any) -> None:
        """Streams run in the order of the program."""
        event.wait(self)

    def wait_stream(self, stream: Any) -> None:
        """Streams run in the order of the program."""
        self.wait_event(stream.record_event())

    def __enter__(self) -> Any:
        entered = self.__dict__.setdefault("_entered", [])
        machine, current = self._streams.machine, self._streams.current
        entered.append((machine.current, current.get(self.device_index, 0)))
        machine.current = self.device_index
        current[self.device_index] = self.stream_id
        return self

    def __exit__(self, *exception: object) -> None:
        device, number = self.__dict__["_entered"].pop()
        self._streams.current[self.device_index] = number
        self._streams.machine.current = device

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Stream)
            and getattr(other, "stream_id", None) == self.stream_id
            and getattr(other, "device_index", None) == self.device_index
            and getattr(other, "device_type", None) == self.device_type
        )

    def __hash__(self) -> int:
        return hash((self.cuda_stream, self.device))

    def __repr__(self) -> str:
        return f"torch.Stream device_type=cuda, device_index={self.device_index}, stream_id={self.stream_id}"


class CudaStream(Stream):
    """`torch.cuda.Stream`."""

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> Any:
        if _is_other(device):
            raise ValueError(f"Expected a cuda device, but got: {torch.device(device)}")
        return Stream.__new__(cls, device, priority=priority, **kwargs)

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self.cuda_stream)

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class ExternalStream(CudaStream):
    """`torch.cuda.ExternalStream`: a stream that another library made."""

    def __new__(cls, stream_ptr: int, device: Any = None, **kwargs: Any) -> Any:
        streams = cls._streams
        number = streams.wrap(stream_ptr)
        return Stream.__new__(cls, stream_id=number, device_index=streams.index_of(device), device_type=_CUDA)


class Event(metaclass=_StandIn):
    """`torch.Event` of a virtual GPU: the host's clock at the moment of recording."""

    replaces = _RealEvent
    _numbers = itertools.count(0x5000, 16)
    _streams: _Streams
    _timing: bool
    _recorded: float | None
    _where: int
    event_id: int

    def __new__(
        cls,
        device: Any = None,
        *,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
    ) -> Any:
        if _is_other(device):
            return _RealEvent(
                device, enable_timing=enable_timing, blocking=blocking, interprocess=interprocess
            )
        return cls._make(enable_timing)

    @classmethod
    def _make(cls, enable_timing: bool) -> Any:
        self = object.__new__(cls)
        self._timing = bool(enable_timing)
        self._recorded = None
        self._where = -1
        self.event_id = 0
        return self

    @property
    def device(self) -> Any:
        """The GPU of the stream that recorded it."""
        return torch.device("cuda") if self._where < 0 else torch.device("cuda", self._where)

    @property
    def cuda_event(self) -> int:
        """An address, 0 before the event is recorded."""
        return self.event_id

    @property
    def _as_parameter_(self) -> Any:
        return ctypes.c_void_p(self.event_id)

    def record(self, stream: Any = None) -> None:
        """Read the clock."""
        if stream is None:
            stream = torch.cuda.current_stream()
        self._where = stream.device_index
        self.event_id = self.event_id or next(self._numbers)
        self._recorded = time.perf_counter()

    def wait(self, stream: Any = None) -> None:
        """Streams run in the order of the program."""

    def query(self) -> bool:
        """What was recorded is done."""
        return True

    def synchronize(self) -> None:
        """Nothing is outstanding."""

    def elapsed_time(self, end_event: Any) -> float:
        """Milliseconds of the host's clock between two recordings."""
        if not (self._timing and end_event._timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._recorded is None or end_event._recorded is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return (end_event._recorded - self._recorded) * 1e3

    def ipc_handle(self) -> bytes:
        """A handle that `from_ipc_handle` takes."""
        return self.event_id.to_bytes(64, "little")

    @classmethod
    def from_ipc_handle(cls, device: Any, handle: bytes) -> Any:
        """An event of another process."""
        event = cls._make(False)
        event.event_id = int.from_bytes(handle, "little")
        return event

    def __repr__(self) -> str:
        return (
            f"torch.Event device_type=cuda, device_index={self._where}, event_flag={int(self.event_id != 0)}, "
            f"event_id={self.event_id}"
        )


class CudaEvent(Event):
    """`torch.cuda.Event`."""

    def __new__(
        cls,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> Any:
        return cls._make(enable_timing)

    def __repr__(self) -> str:
        if self.event_id:
            return f"<torch.cuda.Event {self.event_id:#x}>"
        return "<torch.cuda.Event uninitialized>"


def _record_stream(tensor: Any, stream: Any) -> None:
    """`Tensor.record_stream`: no memory is reused early; C++ would not take the stream."""
    if tensor.is_cuda:
        return
    raise NotImplementedError(
        "Could not run 'aten::record_stream' with arguments from the 'CPU' backend. This could be because the "
        "operator doesn't exist for this backend, or was omitted during the selective/custom build process (if "
        "using custom build). If you are a Facebook employee using PyTorch on mobile, please visit "
        "https://fburl.com/ptmfixes for possible resolutions. 'aten::record_stream' is only available for these "
        "backends: [CUDA, Meta]."
    )


def install(patches: Patches, machine: Machine) -> None:
    """Replace the stream and event classes, and the entry points that name current streams."""
    streams = _Streams(machine)
    for cls in (Stream, Event):
        patches.set(cls, "_streams", streams)

    def current(index: int) -> tuple[int, int, int]:
        where = streams.check(index)
        return streams.current.get(where, 0), where, _CUDA

    def default(index: int) -> tuple[int, int, int]:
        return 0, streams.check(index), _CUDA

    def set_current(stream_id: int, device_index: int, device_type: int) -> None:
        machine.current = streams.check(device_index)
        streams.current[machine.current] = stream_id

    def external(pointer: int, index: int) -> tuple[int, int, int]:
        number = streams.wrap(pointer)
        return number, streams.check(index), _CUDA

    def raw(index: int) -> int:
        number, where, _ = current(index)
        return streams.handle(where, number)

    entry_points: dict[str, Any] = {
        "getCurrentStream": current,
        "getDefaultStream": default,
        "getCurrentRawStream": raw,
        "getStreamFromExternal": external,
        "setStream": set_current,
    }
    for name, function in entry_points.items():
        patches.set(torch._C, f"_cuda_{name}", function)

    patches.set(torch.Tensor, "record_stream", _record_stream)
    patches.set(torch, "Stream", Stream)
    patches.set(torch, "Event", Event)
    # who took the class before virtual GPUs were entered makes virtual streams with it too
    for real, virtual in ((torch.cuda.Stream, CudaStream), (torch.cuda.Event, CudaEvent)):
        patches.set(real, "__new__", lambda _, *args, made=virtual, **kwargs: made(*args, **kwargs))
    for module in (torch.cuda, torch.cuda.streams):
        patches.set(module, "Stream", CudaStream)
        patches.set(module, "ExternalStream", ExternalStream)
        patches.set(module, "Event", CudaEvent)


Stream._event = Event
CudaStream._event = CudaEvent
for _class, _module, _name in (
    (Stream, "torch", "Stream"),
    (Event, "torch", "Event"),
    (CudaStream, "torch.cuda.streams", "Stream"),
    (ExternalStream, "torch.cuda.streams", "ExternalStream"),
    (CudaEvent, "torch.cuda.streams", "Event"),
):
    _class.__module__ = _module
    _class.__name__ = _class.__qualname__ = _name
