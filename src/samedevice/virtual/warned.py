"""Warnings that C++ gives out name the running Python line: the program's, not samedevice's."""

import os
import sys
import warnings
from typing import Any

from samedevice.virtual.patches import Patches

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def install(patches: Patches) -> None:
    """Put the caller's place into warnings that would name a line of samedevice."""
    show = warnings._showwarnmsg  # type: ignore[attr-defined]

    def show_at_caller(message: Any) -> None:
        if str(message.filename).startswith(_OWN):
            frame = sys._getframe(1)
            while frame.f_back is not None and frame.f_code.co_filename.startswith(_OWN):
                frame = frame.f_back
            message.filename, message.lineno, message.line = frame.f_code.co_filename, frame.f_lineno, None
        show(message)

    patches.set(warnings, "_showwarnmsg", show_at_caller)
