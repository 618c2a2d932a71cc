"""Where in the program something happens: the nearest line of user code, found from live frames.

Installed packages, torch, the standard library and samedevice itself are not user code. A place
keeps the code object and the instruction offset; line, column and source text are worked out only
when somebody asks.
"""

import os
import site
import sys
import sysconfig
from types import CodeType, FrameType
from typing import Final

#: kinds of files
SKIP: Final = 0  # torch, the standard library, samedevice, generated code
PACKAGE: Final = 1  # an installed package
USER: Final = 2

_kinds: dict[str, int] = {}


def _folders() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(skipped folders, folders of installed packages), each with a trailing separator."""
    import torch

    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    skipped = [here, os.path.dirname(os.path.abspath(torch.__file__))]
    skipped.append(os.path.join(os.path.dirname(skipped[1]), "torchgen"))
    skipped += [p for name in ("stdlib", "platstdlib") if (p := sysconfig.get_paths().get(name))]
    installed = [p for name in ("purelib", "platlib") if (p := sysconfig.get_paths().get(name))]
    installed += [*site.getsitepackages(), site.getusersitepackages()]

    def norm(paths: list[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(os.path.join(os.path.realpath(p), "") for p in paths)) + tuple(
            dict.fromkeys(os.path.join(os.path.abspath(p), "") for p in paths)
        )

    return norm(skipped), norm(installed)


_cached_folders: tuple[tuple[str, ...], tuple[str, ...]] | None = None


def kind_of(filename: str) -> int:
    """SKIP, PACKAGE or USER for a code object's file name."""
    kind = _kinds.get(filename)
    if kind is None:
        kind = _kinds[filename] = _classify(filename)
    return kind


def _classify(filename: str) -> int:
    global _cached_folders
    if filename.startswith("<"):
        # `<stdin>`, `<ipython-input-3-…>` and `<console>` are the user's; generated code is not.
        return USER if filename.startswith(("<stdin", "<ipython", "<console")) else SKIP
    if _cached_folders is None:
        _cached_folders = _folders()
    skipped, installed = _cached_folders
    path = os.path.abspath(filename)
    if path.startswith(skipped[: len(skipped)]) and not path.startswith(installed):
        return SKIP
    if path.startswith(installed):
        return SKIP if path.startswith(skipped[:]) and _inside_skipped_package(path, skipped) else PACKAGE
    return USER


def _inside_skipped_package(path: str, skipped: tuple[str, ...]) -> bool:
    # site-packages lies inside the standard library's folder in many installations, so being
    # below a skipped folder counts only when that folder is a package of its own.
    return any(path.startswith(folder) and not _is_standard_library(folder) for folder in skipped)


def _is_standard_library(folder: str) -> bool:
    paths = sysconfig.get_paths()
    return any(
        folder == os.path.join(resolve(paths[name]), "")
        for name in ("stdlib", "platstdlib")
        for resolve in (os.path.realpath, os.path.abspath)
        if paths.get(name)
    )


def package_of(filename: str) -> str | None:
    """Name of the installed package that the file belongs to ("transformers"), None for user code."""
    if kind_of(filename) == USER or _cached_folders is None:
        return None
    path = os.path.abspath(filename)
    for folder in _cached_folders[1]:
        if path.startswith(folder):
            return path[len(folder) :].split(os.sep)[0].removesuffix(".py")
    return None


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


def here(depth: int = 1) -> Place:
    """The place of the running call, seen from `depth` frames up."""
    frame: FrameType | None = sys._getframe(depth)
    inner: CodeType | None = None
    inner_lasti = 0
    kinds = _kinds
    while frame is not None:
        code = frame.f_code
        kind = kinds.get(code.co_filename)
        if kind is None:
            kind = kind_of(code.co_filename)
        if kind == USER:
            return Place(code, frame.f_lasti, inner, inner_lasti)
        if kind == PACKAGE and inner is None:
            inner = code
            inner_lasti = frame.f_lasti
        frame = frame.f_back
    if inner is not None:
        return Place(None, 0, inner, inner_lasti)
    return NOWHERE
