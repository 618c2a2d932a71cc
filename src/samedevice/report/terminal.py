"""Colours: style names to what rich prints; the only module of the report that imports rich."""

from collections.abc import Iterable
from io import StringIO
from typing import TYPE_CHECKING

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
