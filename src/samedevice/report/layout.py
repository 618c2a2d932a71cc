"""Styled lines: text with style names, measured and wrapped to a width.

The layout is the same with and without colour, so that what is tested without is what a
terminal shows with. Style names mean something ("path", "fault"); `terminal` gives them colours.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from unicodedata import combining, east_asian_width


class Span(NamedTuple):
    """A piece of text in one style; "" is the terminal's own."""

    text: str
    style: str = ""


#: one line of the report
Line = tuple[Span, ...]

_WORDS = re.compile(r"[^\S\xa0]+|(?:\S|\xa0)+")
_CODE = re.compile(r"(`[^`\n]+`)")

#: never broken inside, however long: a path that is split cannot be clicked or copied
UNBREAKABLE = frozenset({"path"})


def cells(text: str) -> int:
    """How many columns of a terminal `text` takes."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def cut(text: str, room: int) -> str:
    """`text`, its end left out where it takes more than `room` columns."""
    if cells(text) <= room:
        return text
    kept, taken = "", 0
    for character in text:
        taken += cells(character)
        if taken > room - 4:
            break
        kept += character
    return kept + " ..."


def line_cells(line: Iterable[Span]) -> int:
    """How many columns of a terminal `line` takes."""
    return sum(cells(span.text) for span in line)


def prose(text: str, style: str = "", code: str = "code") -> list[Span]:
    """A sentence with `code` in backticks, as spans."""
    pieces = _CODE.split(text)
    return [Span(piece, code if index % 2 else style) for index, piece in enumerate(pieces) if piece]


def plain(lines: Iterable[Line]) -> str:
    """The lines without styles, without blanks at their ends, each with its newline."""
    return "".join("".join(span.text for span in line).rstrip() + "\n" for line in lines)


def _split(word: str, room: int) -> Iterator[str]:
    """`word` in pieces of at most `room` columns."""
    piece, taken = "", 0
    for character in word:
        wide = cells(character)
        if piece and taken + wide > room:
            yield piece
            piece, taken = "", 0
        piece, taken = piece + character, taken + wide
    if piece:
        yield piece


def _words(spans: Iterable[Span]) -> Iterator[list[Span]]:
    """Runs of blanks and words in turn; a word may be of several styles (``(`x`),``).

    A no-break space keeps what it joins on one line, and is written as a space.
    """
    word: list[Span] = []
    for text, style in spans:
        for piece in _WORDS.findall(text):
            if piece.isspace() and "\xa0" not in piece:
                if word:
                    yield word
                    word = []
                yield [Span(" ", style)]
            else:
                word.append(Span(piece.replace("\xa0", " "), style))
    if word:
        yield word


def wrap(
    spans: Iterable[Span], width: int, first: Sequence[Span] = (), rest: Sequence[Span] = ()
) -> list[Line]:
    """`spans` as lines of at most `width` columns, begun with `first`, then with `rest`.

    Words are split only when one alone is too long for a line, and paths never.
    """
    lines: list[Line] = []
    line = list(first)
    start = line_cells(line)
    taken, blank = start, ""
    for word in _words(spans):
        if word[0].text == " ":
            blank = " "
            continue
        long = line_cells(word)
        if taken > start and taken + len(blank) + long > width:
            lines.append(tuple(line))
            line = list(rest)
            taken = start = line_cells(line)
            blank = ""
        if blank and taken > start:
            line.append(Span(" ", word[0].style if word[0].style == line[-1].style else ""))
            taken += 1
        blank = ""
        if taken + long <= width or any(style in UNBREAKABLE for _, style in word):
            line.extend(word)
            taken += long
            continue
        for text, style in word:
            for piece in _split(text, max(width - line_cells(rest), 8)):
                if taken > start and taken + cells(piece) > width:
                    lines.append(tuple(line))
                    line = list(rest)
                    taken = start = line_cells(line)
                line.append(Span(piece, style))
                taken += cells(piece)
    lines.append(tuple(line))
    return lines
