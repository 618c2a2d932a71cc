"""The stack of an event: frames of the user's code and of packages, and who asked for the event."""

import os
import sys
from types import CodeType, FrameType
from typing import Final, NamedTuple

from samedevice.program.files import PACKAGE, USER, kind_of

#: files of torch that only pass on what the program's line asked for
_PASSING: Final = (
    "_tensor.py",
    "_tensor_str.py",
    "overrides.py",
    "functional.py",
    "_jit_internal.py",
    "_compile.py",
    "_dynamo/eval_frame.py",
    "_VF.py",
    "utils/_contextlib.py",
    "utils/_device.py",
    "cuda/__init__.py",
    "cuda/streams.py",
    "autograd/grad_mode.py",
    "nn/utils/rnn.py",
)
_MODULE: Final = "nn/modules/module.py"
_IGNORED, _TORCH, _PACKAGE, _USER, _MODULES = range(5)
_kinds: dict[str, int] = {}

#: frames looked at for one event
MOST: Final = 200


class Frame(NamedTuple):
    """A code object and the instruction it is at."""

    code: CodeType
    lasti: int


class Stack(NamedTuple):
    """Where an event happened.

    Attributes:
        frames: of user code and installed packages, innermost first.
        user: index of the innermost frame of user code, -1 when there is none.
        direct: nothing but the user's own line asked for it.
        of_module: it happens while a module moves.
    """

    frames: tuple[Frame, ...]
    user: int
    direct: bool
    of_module: bool

    @property
    def place(self) -> Frame | None:
        """The innermost frame of user code."""
        return self.frames[self.user] if self.user >= 0 else None


def _kind(filename: str) -> int:
    kind = kind_of(filename)
    if kind == USER:
        return _USER
    if kind == PACKAGE:
        return _PACKAGE
    path = filename.replace(os.sep, "/")
    _, torch, rest = path.rpartition("/torch/")
    if not torch:
        return _IGNORED
    if rest == _MODULE:
        return _MODULES
    return _IGNORED if rest in _PASSING else _TORCH


def stack() -> Stack:
    """The stack of the running call; frames of samedevice itself are never part of it."""
    frame: FrameType | None = sys._getframe(1)
    frames: list[Frame] = []
    user = -1
    direct = True
    of_module = False
    for _ in range(MOST):
        if frame is None:
            break
        code = frame.f_code
        kind = _kinds.get(code.co_filename)
        if kind is None:
            kind = _kinds[code.co_filename] = _kind(code.co_filename)
        if kind in (_USER, _PACKAGE):
            if kind == _USER and user < 0:
                user = len(frames)
            elif user < 0:
                direct = False
            frames.append(Frame(code, frame.f_lasti))
        elif user < 0 and kind != _IGNORED:
            if kind == _MODULES and code.co_name in ("_apply", "convert"):
                of_module = True
            if kind == _TORCH or of_module:
                direct = False
        frame = frame.f_back
    return Stack(tuple(frames), user, direct, of_module)
