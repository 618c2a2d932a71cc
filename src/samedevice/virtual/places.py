"""Where in the program something happens: the nearest line of user code, found from live frames.

Installed packages, torch, the standard library and samedevice itself are not user code. A place
keeps the code object and the instruction offset; line, column and source text are worked out only
when somebody asks.
"""

import sys
from types import CodeType, FrameType
from typing import Final

from samedevice.program.files import PACKAGE, SKIP, USER, kind_of, kinds, package_of

__all__ = [
    "NOWHERE",
    "PACKAGE",
    "SKIP",
    "USER",
    "Place",
    "Trail",
    "here",
    "kind_of",
    "line_of",
    "package_of",
    "trail",
]


class Place:
    """A point of the program: user code, and the package code inside it where there is some.

    Attributes:
        code, lasti: the innermost frame of user code; None when the stack has none.
        inner, inner_lasti: the innermost frame of an installed package below the user's frame
            (where the user called into it), None when the user's own line did it.
    """

    __slots__ = ("code", "inner", "inner_lasti", "lasti")

    def __init__(self, code: CodeType | None, lasti: int, inner: CodeType | None, inner_lasti: int) -> None:
        self.code = code
        self.lasti = lasti
        self.inner = inner
        self.inner_lasti = inner_lasti

    @property
    def filename(self) -> str | None:
        """File of the user's line."""
        return None if self.code is None else self.code.co_filename

    @property
    def lineno(self) -> int:
        """The user's line, 0 when unknown."""
        return 0 if self.code is None else line_of(self.code, self.lasti)

    @property
    def package(self) -> str | None:
        """The package in which it happens, None when the user's own line did it."""
        return None if self.inner is None else package_of(self.inner.co_filename)

    def __repr__(self) -> str:
        return f"Place({self.filename}:{self.lineno})"


def line_of(code: CodeType, lasti: int) -> int:
    """The source line of an instruction."""
    for start, end, line in code.co_lines():
        if start <= lasti < end and line is not None:
            return line
    return code.co_firstlineno


NOWHERE: Final = Place(None, 0, None, 0)

#: one object for each point of the program, however many tensors are born there; by the identity of the code
#: objects, which the places keep alive
_known: dict[tuple[int, int, int, int], Place] = {}
#: a program that compiles code as it runs must not be kept whole
_MOST_KNOWN: Final = 20_000


def here(depth: int = 1) -> Place:
    """The place of the running call, seen from `depth` frames up."""
    frame: FrameType | None = sys._getframe(depth)
    inner: CodeType | None = None
    inner_lasti = 0
    known = kinds
    while frame is not None:
        code = frame.f_code
        kind = known.get(code.co_filename)
        if kind is None:
            kind = kind_of(code.co_filename)
        if kind == USER:
            lasti = frame.f_lasti
            place = _known.get((id(code), lasti, id(inner), inner_lasti))
            return place if place is not None else _keep(code, lasti, inner, inner_lasti)
        if kind == PACKAGE and inner is None:
            inner = code
            inner_lasti = frame.f_lasti
        frame = frame.f_back
    if inner is not None:
        return Place(None, 0, inner, inner_lasti)
    return NOWHERE


def _keep(code: CodeType, lasti: int, inner: CodeType | None, inner_lasti: int) -> Place:
    """A new place, kept for the next tensor that is born there."""
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    place = Place(code, lasti, inner, inner_lasti)
    _known[id(code), lasti, id(inner), inner_lasti] = place
    return place


#: user frames of an event's stack, outermost first: (code, instruction offset)
Trail = tuple[tuple[CodeType, int], ...]


def trail(depth: int = 1, most: int = 24) -> Trail:
    """The user's frames of the running call, outermost first; for events that are rare."""
    frame: FrameType | None = sys._getframe(depth)
    found: list[tuple[CodeType, int]] = []
    while frame is not None and len(found) < most:
        if kind_of(frame.f_code.co_filename) == USER:
            found.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return tuple(reversed(found))
