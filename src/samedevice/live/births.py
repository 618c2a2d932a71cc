"""`--trace`: where each tensor was made and moved, noted while the program runs on its real devices."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from samedevice.model.errors import UserError
from samedevice.program.files import USER, kind_of
from samedevice.program.frames import Spot

ATTRIBUTE = "_samedevice_trace"


@dataclass(frozen=True, slots=True)
class Birth:
    """The user's line that made a storage.

    Attributes:
        function: name of the torch function that ran.
        explicit: the call had a `device=`.
    """

    function: str
    code: CodeType
    lasti: int
    explicit: bool

    @property
    def spot(self) -> Spot:
        """The place in the sources."""
        return Spot(self.code, self.lasti)


@contextmanager
def recording() -> Iterator[None]:
    """Note births while the program runs.

    Raises:
        UserError: torch is not installed.
    """
    try:
        from torch.overrides import TorchFunctionMode
    except ImportError:
        raise UserError("`--trace` needs torch, which is not installed in this environment") from None

    class Recorder(TorchFunctionMode):
        """Notes the line of whoever called a function that gave a new storage."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            note(result, func, kwargs)
            return result

    with Recorder():
        yield


def note(result: Any, func: Any, kwargs: Any) -> None:
    """Mark the storages in a result that are new."""
    torch = sys.modules["torch"]
    things = result if type(result) in (tuple, list) else (result,)
    place: FrameType | None = None
    for thing in things:
        if not isinstance(thing, torch.Tensor):
            continue
        try:
            storage = thing.untyped_storage()
            if hasattr(storage, ATTRIBUTE):
                continue
            if place is None:
                place = _user_frame(sys._getframe(2))
            if place is None:
                return
            name = getattr(func, "__name__", "") or ""
            setattr(
                storage,
                ATTRIBUTE,
                Birth(name, place.f_code, place.f_lasti, bool(kwargs and kwargs.get("device") is not None)),
            )
        except (NotImplementedError, RuntimeError, AttributeError):
            continue  # sparse, wrapped and functorch tensors have no storage to mark


def _user_frame(frame: FrameType | None) -> FrameType | None:
    while frame is not None:
        if kind_of(frame.f_code.co_filename) == USER:
            return frame
        frame = frame.f_back
    return None


def birth_of(tensor: Any) -> Birth | None:
    """The record of a tensor's storage, None when there is none."""
    try:
        found = getattr(tensor.untyped_storage(), ATTRIBUTE, None)
    except (NotImplementedError, RuntimeError, AttributeError):
        return None
    return found if isinstance(found, Birth) else None
