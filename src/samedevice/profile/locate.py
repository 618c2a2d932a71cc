"""From instructions to source: locations, expressions, statements."""

import ast
import linecache
from dataclasses import dataclass
from typing import Any

from samedevice.model.diagnostic import Location
from samedevice.profile.loops import Loop, span_of
from samedevice.program.files import shown


@dataclass(frozen=True, slots=True)
class Spot:
    """An instruction's source."""

    location: Location
    expression: str
    text: str


class Sources:
    """Reads files once."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}

    def lines(self, filename: str) -> list[str]:
        """The file's lines, empty when it cannot be read."""
        if filename not in self._texts:
            self._texts[filename] = linecache.getlines(filename)
        return self._texts[filename]

    def text(self, filename: str) -> str:
        """The whole file."""
        return "".join(self.lines(filename))

    def spot(self, place: Any) -> Spot | None:
        """The source of anything with `code` and `lasti`; None where there is no code."""
        code = getattr(place, "code", None)
        if code is None:
            return None
        filename = code.co_filename
        lines = self.lines(filename)
        start, end = span_of(code, place.lasti)
        if start is None or end is None:
            line = next((n for first, last, n in code.co_lines() if first <= place.lasti < last and n), 0)
            return Spot(Location(shown(filename), line or code.co_firstlineno), "", self.text(filename))
        location = Location(
            shown(filename),
            start[0],
            _column(lines, start),
            end[0],
            _column(lines, end),
        )
        return Spot(location, _segment(lines, start, end), self.text(filename))

    def loop(self, loop: Loop) -> Location:
        """Where a loop starts."""
        return Location(
            shown(loop.filename), loop.line, _column(self.lines(loop.filename), (loop.line, loop.column))
        )

    def statement(self, spot: Spot) -> str:
        """The source of the smallest statement around the spot."""
        try:
            tree = ast.parse(spot.text)
        except (SyntaxError, ValueError, RecursionError):
            return ""
        best: ast.stmt | None = None
        line = spot.location.line
        for node in ast.walk(tree):
            if not isinstance(node, ast.stmt) or not node.lineno <= line <= (node.end_lineno or node.lineno):
                continue
            if best is None or node.lineno >= best.lineno:
                best = node
        return "" if best is None else ast.get_source_segment(spot.text, best) or ""


def _column(lines: list[str], point: tuple[int, int]) -> int:
    line, offset = point
    if not 0 < line <= len(lines):
        return offset + 1
    return len(lines[line - 1].encode()[:offset].decode(errors="ignore")) + 1


def _segment(lines: list[str], start: tuple[int, int], end: tuple[int, int]) -> str:
    if not 0 < start[0] <= end[0] <= len(lines):
        return ""
    picked = [line.encode() for line in lines[start[0] - 1 : end[0]]]
    picked[-1] = picked[-1][: end[1]]
    picked[0] = picked[0][start[1] :]
    return b"".join(picked).decode(errors="ignore")
