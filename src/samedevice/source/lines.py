"""Where lines begin: points (line, column) to offsets and back, by Python's idea of a line end."""

import re
from bisect import bisect_right
from itertools import pairwise

from samedevice.model.fix import Point

#: `str.splitlines` also splits at form feeds and other characters where Python's parser does not
LINE_END = re.compile(r"\r\n|\r|\n")


class LineIndex:
    """Offsets of a text's line starts; columns count characters from 1."""

    __slots__ = ("starts", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0, *(found.end() for found in LINE_END.finditer(text))]

    def offset(self, point: Point) -> int:
        """The offset of `point`.

        Raises:
            ValueError: the text has no such place.
        """
        if not 1 <= point.line <= len(self.starts):
            raise ValueError(f"no line {point.line}")
        start = self.starts[point.line - 1]
        end = self.starts[point.line] if point.line < len(self.starts) else len(self.text)
        if point.column < 1 or start + point.column - 1 > end:
            raise ValueError(f"no column {point.column} in line {point.line}")
        return start + point.column - 1

    def point(self, offset: int) -> Point:
        """The point of `offset`, an offset within the text or at its end."""
        line = bisect_right(self.starts, offset)
        return Point(line, offset - self.starts[line - 1] + 1)


def lines_of(text: str) -> list[str]:
    """The lines of `text` without their line ends, as Python's parser counts them."""
    lines = LINE_END.split(text)
    return lines if lines[-1] else lines[:-1]


def split_lines(text: str) -> list[str]:
    """The lines of `text` with their line ends, as Python's parser counts them."""
    starts = LineIndex(text).starts
    lines = [text[begin:end] for begin, end in pairwise(starts)]
    last = text[starts[-1] :]
    return [*lines, last] if last else lines
