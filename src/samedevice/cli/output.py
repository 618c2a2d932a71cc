"""Where a report goes: standard error, standard output, or a file written atomically."""

import os
import shutil
import sys
from typing import TextIO

from samedevice.model.errors import UserError
from samedevice.model.outcome import Outcome
from samedevice.report import render
from samedevice.source.writing import write_atomically


def write_report(
    outcome: Outcome,
    format: str,
    output: str | None,
    *,
    root: str | None = None,
    stream: TextIO | None = None,
) -> None:
    """Render and write a report.

    Args:
        output: a file, "-" for standard output, None for `stream` (standard error).
        root: folder that relative paths of the report start from.

    Raises:
        UserError: the file cannot be written.
    """
    if output is not None and output != "-":
        write_file(output, render(outcome, format, root=root))
        return
    target = sys.stdout if output == "-" else (stream or sys.stderr)
    text = render(outcome, format, color=wants_color(target), width=width_of(target), root=root)
    target.write(text)
    target.flush()


def wants_color(stream: TextIO) -> bool:
    """Colours on a terminal, unless NO_COLOR or TERM=dumb says otherwise; FORCE_COLOR forces them."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def width_of(stream: TextIO) -> int:
    """Columns to write for: the terminal's, at most 120; 80 where there is none."""
    return min(shutil.get_terminal_size().columns, 120) if stream.isatty() else 80


def check_writable(path: str) -> None:
    """Say before the work, not after it, that a file cannot be written.

    Raises:
        UserError: its folder does not exist or may not be written to, or it is a folder itself.
    """
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if os.path.isdir(target):
        raise UserError(f"cannot write `{path}`: it is a folder")
    if not os.path.isdir(folder):
        raise UserError(f"cannot write `{path}`: there is no folder `{folder}`")
    if not os.access(folder, os.W_OK):
        raise UserError(f"cannot write `{path}`: no permission to write into `{folder}`")


def write_file(path: str, text: str) -> None:
    """Write a text file so that a reader sees the old one or the whole new one.

    Raises:
        UserError: it cannot be written; the text says why.
    """
    try:
        write_atomically(path, text.encode())
    except OSError as error:
        raise UserError(f"cannot write `{path}`: {error.strerror or error}") from None
