"""Source excerpts: the lines of a place with a gutter and carets, cropped to a width."""

import json
import tokenize
from collections.abc import Callable, Sequence
from pathlib import Path

from samedevice.model.diagnostic import Location
from samedevice.report.layout import Line, Span, cells, cut
from samedevice.source.lines import lines_of

#: the lines of a file (or of a notebook's cell), None when it cannot be read
ReadLines = Callable[[str, int | None], Sequence[str] | None]

#: a span of more lines is shown by its first and its last ones
LONGEST = 6


class Files:
    """Reads source lines from files, each once; answers None for what cannot be read."""

    def __init__(self, root: str | None = None) -> None:
        self.root = Path(root) if root is not None else Path.cwd()
        self._known: dict[tuple[str, int | None], Sequence[str] | None] = {}

    def __call__(self, path: str, cell: int | None) -> Sequence[str] | None:
        if (path, cell) not in self._known:
            self._known[path, cell] = self._read(self.root / path, cell)
        return self._known[path, cell]

    def _read(self, path: Path, cell: int | None) -> Sequence[str] | None:
        try:
            if cell is not None:
                text = json.loads(path.read_text(encoding="utf-8"))["cells"][cell - 1]["source"]
                return lines_of(text if isinstance(text, str) else "".join(text))
            # Only program text: an excerpt of a binary or of a log would mislead.
            with tokenize.open(path) as file:
                return lines_of(file.read())
        except (OSError, SyntaxError, ValueError, LookupError, TypeError):
            return None


def source_line(location: Location, read: ReadLines) -> str | None:
    """The text of the location's first line without its indentation, None when unknown."""
    lines = read(location.path, location.cell)
    if lines is None or not 0 < location.line <= len(lines):
        return None
    return lines[location.line - 1].expandtabs(4).strip() or None


def _columns(text: str, column: int) -> int:
    """How many terminal columns stand before character `column` of `text`, tabs expanded."""
    return cells(text[: column - 1].expandtabs(4))


def _crop(text: str, start: int, end: int, room: int) -> tuple[str, int, int]:
    """`text` cut to `room` columns around the columns `start` to `end`, both moved along.

    Only text of single-width characters is cut at the left; the rest is rare and cut at the right.
    """
    if end > room - 4 and text.isascii():
        # A little of what stands before the caret, as much as possible of what it points at.
        left = min(start - 8, max(end, len(text) - 4) - room + 8)
        if left > 4:
            text, start, end = "... " + text[left:], start - left + 4, end - left + 4
    limit = room if cells(text) <= room else room - 4
    text = cut(text, room)
    start = min(start, limit - 1)
    return text, start, min(end, limit)


def excerpt(location: Location, read: ReadLines, width: int, gutter: int, style: str) -> list[Line]:
    """The source of `location` with carets under it in `style`; empty when it cannot be read.

    A single line is underlined. A longer span is bracketed, its middle left out when it is long.
    """
    lines = read(location.path, location.cell)
    if lines is None or not 0 < location.line <= len(lines):
        return []
    last = min(max(location.end_line or location.line, location.line), len(lines))
    empty: Line = (Span(" " * (gutter + 1) + "|", "gutter"),)
    if last == location.line:
        raw = lines[location.line - 1]
        text = raw.expandtabs(4)
        indent = len(text) - len(text.lstrip())
        room = width - gutter - 3
        start = _columns(raw, location.column) if location.end_column else indent
        end = _columns(raw, location.end_column) if location.end_column else cells(text.rstrip())
        text, start, end = _crop(text.rstrip(), start, max(end, start + 1), room)
        return [
            empty,
            _numbered(location.line, gutter, Span(" " + text, "source")),
            (*empty, Span(" " * (start + 1) + "^" * max(end - start, 1), style)),
        ]
    numbers = list(range(location.line, last + 1))
    if len(numbers) > LONGEST:
        numbers = [*numbers[: LONGEST - 2], 0, last]
    shown = [empty]
    room = width - gutter - 5
    common = min(
        (len(t) - len(t.lstrip()) for n in numbers if n and (t := lines[n - 1].expandtabs(4)).strip()),
        default=0,
    )
    # Deep indentation says nothing here and costs the columns that the code needs.
    left = max(common - 4, 0)
    for number in numbers:
        bracket = Span(" /" if number == location.line else " |", style)
        if not number:
            shown.append((Span("." * 3 + " " * max(gutter - 2, 0), "gutter"), bracket))
            continue
        text, _, _ = _crop(lines[number - 1].expandtabs(4).rstrip()[left:], 0, 0, room)
        shown.append(_numbered(number, gutter, bracket, Span(" " + text, "source")))
    shown.append((*empty, Span(" |_^", style)))
    return shown


def _numbered(number: int, gutter: int, *spans: Span) -> Line:
    return (Span(f"{number:>{gutter}} |", "gutter"), *spans)
