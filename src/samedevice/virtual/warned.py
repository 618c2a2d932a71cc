"""Warnings that C++ gives out name the running Python line: the program's, not samedevice's.

Python shows a warning once a line, and finds the line by the innermost Python frame. That is one of ours
whenever torch is called through a mode, so the second of two lines that warn would say nothing, and filters
by module would look at the wrong one.
"""

import os
import sys
import warnings
from types import FrameType
from typing import Any, Final

import torch

from samedevice.virtual.patches import Patches

_OWN: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_PACKAGE: Final = __name__.partition(".")[0]


def install(patches: Patches) -> None:
    """Give each warning that would name a line of samedevice out again, in its caller's place."""
    show = warnings._showwarnmsg  # type: ignore[attr-defined]

    def show_at_caller(message: Any) -> None:
        if not str(message.filename).startswith(_OWN):
            show(message)
            return
        frame: FrameType = sys._getframe(1)
        while frame.f_back is not None and frame.f_code.co_filename.startswith(_OWN):
            frame = frame.f_back
        # A filter "once" has noted it just now, and would keep it from being shown in the right place.
        warnings.onceregistry.pop((str(message.message), message.category), None)  # type: ignore[attr-defined]
        names = frame.f_globals
        warnings.warn_explicit(
            message.message,
            message.category,
            frame.f_code.co_filename,
            frame.f_lineno,
            names.get("__name__"),
            names.setdefault("__warningregistry__", {}),
            source=message.source,
        )

    patches.set(warnings, "_showwarnmsg", show_at_caller)
    for name, module in list(sys.modules.items()):
        if module is not None and (name == _PACKAGE or name.startswith(_PACKAGE + ".")):
            # Without a registry Python passes on each warning of a line, for its caller's registry to judge.
            patches.set(module, "__warningregistry__", None)


_once: Final[set[str]] = set()


def warn_once(text: str) -> None:
    """Warn as C++ does with TORCH_WARN_ONCE: once a process, or always when torch is told so."""
    if text not in _once or torch.is_warn_always_enabled():
        _once.add(text)
        warnings.warn(text, UserWarning, stacklevel=2)
