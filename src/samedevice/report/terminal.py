"""Colours: style names to what rich prints; the only module of the report that imports rich."""

import os
import shutil
from collections.abc import Iterable, Mapping
from io import StringIO
from typing import TYPE_CHECKING, TextIO

from samedevice.report.layout import Line, plain

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

#: style name -> rich style; the sixteen colours that a terminal's own theme makes readable
STYLES = {
    "error": "bold red",
    "warning": "bold yellow",
    "info": "bold cyan",
    "headline": "bold",
    "gutter": "blue",
    "path": "cyan",
    "title": "bold",
    "number": "bold blue",
    "code": "bold",
    "source": "",
    "suggestion": "green",
    "fault": "bold red",
    "raised": "red",
    "lesson": "bold magenta",
    "help": "bold green",
    "fix": "bold green",
    "note": "bold blue",
    "good": "bold green",
    "bad": "bold red",
    "dim": "dim",
}


def wants_color(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether to write colours to `stream`: a terminal that has not been told otherwise.

    `NO_COLOR` and `TERM=dumb` say no, `FORCE_COLOR` says yes also to a pipe.
    """
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return True
    return environ.get("TERM") != "dumb" and stream.isatty()


def terminal_width(stream: TextIO, environ: Mapping[str, str] = os.environ) -> int:
    """Columns to lay a report out for: 80 in a pipe, at most 100 on a terminal (long lines read badly)."""
    if not stream.isatty() and not environ.get("COLUMNS"):
        return 80
    return max(40, min(shutil.get_terminal_size((80, 24)).columns, 100))


def rich_text(line: Line) -> "Text":
    """The line as rich knows it."""
    from rich.text import Text

    return Text.assemble(*((span.text, STYLES.get(span.style, "")) for span in line), end="")


def print_lines(lines: Iterable[Line], console: "Console") -> None:
    """Print lines that are laid out already."""
    for line in lines:
        console.print(rich_text(line), soft_wrap=True, highlight=False, markup=False, emoji=False)


def colored(lines: Iterable[Line]) -> str:
    """The lines with ANSI colours; without, when rich is missing."""
    try:
        from rich.console import Console
    except ImportError:
        return plain(lines)
    stream = StringIO()
    console = Console(
        file=stream,
        force_terminal=True,
        color_system="standard",
        no_color=False,
        legacy_windows=False,
        _environ={},
    )
    print_lines(lines, console)
    return stream.getvalue()
