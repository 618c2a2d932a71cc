"""Files that a run reads otherwise than the disk has them: edits that are tried and written nowhere else.

`check --diff` names them in the environment, and each Python process of the run reads them there: modules as they
are imported, sources as tracebacks, `inspect` and the program itself open them.
"""

import builtins
import io
import json
import os
import tokenize
from collections.abc import Mapping
from importlib.machinery import SourceFileLoader
from typing import Any, Final

#: names a JSON file: the real path of a file -> where what is read in its place lies
VARIABLE: Final = "SAMEDEVICE_OVERLAY"

_installed = False


def install() -> None:
    """From now on read what the environment names; once in a process."""
    global _installed
    manifest = os.environ.get(VARIABLE)
    if _installed or not manifest:
        return
    try:
        with open(manifest, encoding="utf-8") as stream:
            instead = json.load(stream)
    except (OSError, ValueError):
        return
    _installed = True
    if instead:
        _read_instead(instead)


def _read_instead(instead: Mapping[str, str]) -> None:
    plain_open, plain_open_code = builtins.open, io.open_code
    get_data, path_stats = SourceFileLoader.get_data, SourceFileLoader.path_stats

    def other(file: Any) -> str | None:
        if not isinstance(file, (str, bytes, os.PathLike)):
            return None
        path = os.fsdecode(file)
        return instead.get(os.path.realpath(path)) if path.endswith(".py") else None

    def open(file: Any, mode: str = "r", *args: Any, **named: Any) -> Any:
        found = None if set(mode) & set("wxa+") else other(file)
        return plain_open(file if found is None else found, mode, *args, **named)

    def open_code(path: str) -> Any:
        return plain_open_code(other(path) or path)

    def data(self: SourceFileLoader, path: str) -> bytes:
        found = other(path)
        if found is None:
            return get_data(self, path)
        with plain_open(found, "rb") as stream:
            return stream.read()

    def stats(self: SourceFileLoader, path: str) -> Any:
        found = other(path)
        # A time that no bytecode on the disk was made for.
        return path_stats(self, path) if found is None else {"mtime": 1, "size": os.path.getsize(found)}

    builtins.open = io.open = tokenize._builtin_open = open  # type: ignore[attr-defined]
    io.open_code = open_code
    SourceFileLoader.get_data = data  # type: ignore[method-assign, assignment]
    SourceFileLoader.path_stats = stats  # type: ignore[method-assign]
