"""Edits written back into a notebook: the JSON stays laid out as it was, to the byte."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from samedevice.model.fix import Edit
from samedevice.source.decoding import UTF8_MARK
from samedevice.source.magics import harmless
from samedevice.source.notebook import NotebookError, text_of
from samedevice.source.rewriting import EditError, check_compiles, locate


def edit_notebook(data: bytes, edits: Sequence[Edit]) -> bytes:
    """The notebook's bytes with `edits` made in its cells; everything else stays as it is.

    Raises:
        EditError: an edit does not fit, or a cell would not parse any more.
    """
    mark = UTF8_MARK if data.startswith(UTF8_MARK) else b""
    try:
        text = text_of(data)
        spans = cell_sources(text)
    except (NotebookError, ValueError, RecursionError) as error:
        raise EditError(f"the notebook cannot be read: {error}") from None
    by_cell: dict[int, list[Edit]] = {}
    for edit in edits:
        if edit.cell is None or edit.cell not in spans:
            raise EditError(f"the notebook has no cell {edit.cell}")
        by_cell.setdefault(edit.cell, []).append(edit)
    changes: list[tuple[int, int, str]] = []
    for number, in_cell in by_cell.items():
        source = spans[number]
        if not source.literals:
            raise EditError("the cell is empty")
        old = source.decoded
        located = locate(old, in_cell)
        new = old
        for start, end, replacement in reversed(located):
            new = new[:start] + replacement + new[end:]
        check_compiles(harmless(new)[0], harmless(old)[0])
        if harmless(new)[1] is not None and harmless(old)[1] is None:
            raise EditError("the cell would not parse any more")
        changes += [source.raw_change(*span) for span in located]
    for start, end, replacement in sorted(changes, reverse=True):
        text = text[:start] + replacement + text[end:]
    return mark + text.encode("utf-8")


@dataclass(frozen=True, slots=True)
class CellSource:
    """Where a cell's source stands in the JSON text: one string literal, or several in a list.

    Attributes:
        literals: (start, end) of each literal's inside, between the quotes.
        separator: what stands between two literals of the list, None when it is one string.
    """

    json_text: str
    literals: tuple[tuple[int, int], ...]
    separator: str | None

    @property
    def decoded(self) -> str:
        """The source as Python text."""
        return "".join(char for char, _, _ in self.characters())

    def characters(self) -> Iterator[tuple[str, int, int]]:
        """Each character of the source with its start and end in the JSON text."""
        for start, end in self.literals:
            for found in ESCAPE_OR_CHARACTER.finditer(self.json_text, start, end):
                raw = found[0]
                yield (json.loads(f'"{raw}"') if raw[0] == "\\" else raw), found.start(), found.end()

    def raw_change(self, start: int, end: int, new: str) -> tuple[int, int, str]:
        """The change of the JSON text that replaces the characters from `start` to `end` by `new`."""
        characters = list(self.characters())
        at_end = end >= len(characters)
        begin = characters[start][1] if start < len(characters) else self.literals[-1][1]
        if end == start:
            stop = begin
        elif at_end:
            stop = self.literals[-1][1]
        else:
            # Up to the next character, which may be in the next literal: no empty literal is left behind.
            stop = characters[end][1]
        if at_end and not new and end > start and len(self.literals) > 1 and begin == self.literals[-1][0]:
            begin = self.literals[-2][1]
        return begin, stop, self.escaped(new, at_end=at_end)

    def escaped(self, new: str, *, at_end: bool) -> str:
        """`new` as the inside of literals: one a line where the source is a list."""
        keep_ascii = self.json_text.isascii() and "\\u" in self.json_text
        parts = [json.dumps(line, ensure_ascii=keep_ascii)[1:-1] for line in new.split("\n")]
        if self.separator is None:
            return "\\n".join(parts)
        last = parts.pop() if at_end and len(parts) > 1 and not parts[-1] else None
        return f'\\n"{self.separator}"'.join(parts) + ("\\n" if last is not None else "")


ESCAPE_OR_CHARACTER = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|.", re.DOTALL
)


def cell_sources(text: str) -> dict[int, CellSource]:
    """Where the source of each code cell stands in the JSON `text`, by the cell's number."""
    found: dict[int, CellSource] = {}
    for key, _, start in members(text, skip(text, 0)):
        if key != "cells":
            continue
        for number, begin in enumerate(items(text, start), 1):
            for name, end, value in members(text, begin):
                if name == "source":
                    found[number] = source_at(text, value, end)
    return found


def source_at(text: str, start: int, end: int) -> CellSource:
    """The source whose JSON value is `text[start:end]`."""
    if text[start] == '"':
        return CellSource(text, ((start + 1, end - 1),), None)
    literals: list[tuple[int, int]] = []
    for begin in items(text, start):
        _, stop = string_at(text, begin)
        literals.append((begin + 1, stop - 1))
    if len(literals) > 1:
        separator = text[literals[0][1] + 1 : literals[1][0] - 1]
    else:
        separator = "," + (text[start + 1 : literals[0][0] - 1] if literals else "")
    return CellSource(text, tuple(literals), separator)


DECODER = json.JSONDecoder()
SPACE = re.compile(r"[ \t\n\r]*")


def skip(text: str, at: int) -> int:
    """The next offset that is no white space."""
    found = SPACE.match(text, at)
    return found.end() if found else at


def string_at(text: str, at: int) -> tuple[str, int]:
    """(the string whose literal begins at `at`, where the literal ends)."""
    value, end = DECODER.raw_decode(text, at)
    return value, end


def members(text: str, at: int) -> Iterator[tuple[str, int, int]]:
    """(key, end of the value, start of the value) of the JSON object that begins at `at`."""
    at = skip(text, at + 1)
    while text[at] != "}":
        key, at = string_at(text, at)
        start = skip(text, skip(text, at) + 1)
        _, end = DECODER.raw_decode(text, start)
        yield key, end, start
        at = skip(text, end)
        if text[at] == ",":
            at = skip(text, at + 1)


def items(text: str, at: int) -> Iterator[int]:
    """Where each item of the JSON array that begins at `at` starts."""
    at = skip(text, at + 1)
    while text[at] != "]":
        yield at
        _, end = DECODER.raw_decode(text, at)
        at = skip(text, end)
        if text[at] == ",":
            at = skip(text, at + 1)
