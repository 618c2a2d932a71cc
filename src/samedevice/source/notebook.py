"""Jupyter notebooks: code cells as one Python text, and edits written back into the JSON as it was laid out.

The text that is analysed is that of all code cells in order, magics made harmless without moving
anything: every character of a cell keeps its line and column.
"""

import ast
import json
import re
import warnings
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from samedevice.model.diagnostic import Diagnostic, Evidence, Location, Raised
from samedevice.model.fix import Edit, Fix, Point
from samedevice.source.decoding import UTF8_MARK
from samedevice.source.lines import LINE_END
from samedevice.source.rewriting import EditError, check_compiles, locate


class NotebookError(Exception):
    """The file is no notebook that can be read; says why and where."""

    def __init__(self, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


@dataclass(frozen=True, slots=True)
class Cell:
    """A code cell: its number among all cells, counted from 1, and its source as written."""

    number: int
    source: str


@dataclass(frozen=True, slots=True)
class Notebook:
    """The code cells of a notebook.

    Attributes:
        text: all cells as one Python source, magics made harmless.
        first_lines: the line of `text` on which each cell begins.
        broken: cells that are no Python and are left out of `text`, with the error.
    """

    cells: tuple[Cell, ...]
    text: str
    first_lines: tuple[int, ...]
    broken: tuple[tuple[Cell, SyntaxError], ...]

    def place(self, line: int) -> tuple[int, int]:
        """(cell number, line in the cell) of a line of `text`."""
        index = max(bisect_right(self.first_lines, line) - 1, 0)
        return self.cells[index].number, line - self.first_lines[index] + 1

    def line_count(self, number: int | None) -> int:
        """How many lines the cell `number` has."""
        return next((len(LINE_END.findall(c.source)) + 1 for c in self.cells if c.number == number), 1)

    def in_cells(self, diagnostic: Diagnostic, path: str) -> Diagnostic:
        """`diagnostic` of `text` with every place in the notebook `path` as cell and line."""

        def location(where: Location) -> Location:
            if where.path != path or where.cell is not None or not self.cells:
                return where
            cell, line = self.place(where.line)
            end = where.end_line and where.end_line - where.line + line
            return replace(where, line=line, end_line=end, cell=cell)

        def edit(one: Edit) -> Edit:
            if one.path != path or one.cell is not None or not self.cells:
                return one
            cell, line = self.place(one.start.line)
            end = Point(one.end.line - one.start.line + line, one.end.column)
            return replace(one, start=Point(line, one.start.column), end=end, cell=cell)

        def evidence(step: Evidence) -> Evidence:
            return replace(step, location=location(step.location))

        def raised(one: Raised | None) -> Raised | None:
            return one and replace(one, location=location(one.location))

        def fix(one: Fix | None) -> Fix | None:
            return one and replace(one, edits=tuple(map(edit, one.edits)))

        return replace(
            diagnostic,
            location=location(diagnostic.location),
            raised=raised(diagnostic.raised),
            tensors=tuple(replace(t, born=t.born and location(t.born)) for t in diagnostic.tensors),
            evidence=tuple(map(evidence, diagnostic.evidence)),
            fix=fix(diagnostic.fix),
        )


def read_notebook(data: bytes) -> Notebook | None:
    """The notebook in `data`; None when its language is not Python.

    Raises:
        NotebookError: it is no notebook, or one of a format before 4.
    """
    try:
        content = json.loads(text_of(data))
    except json.JSONDecodeError as error:
        raise NotebookError(f"the notebook is not valid JSON: {error.msg}", error.lineno) from None
    except RecursionError:
        raise NotebookError("the notebook's JSON is nested too deeply") from None
    if not isinstance(content, dict) or not isinstance(content.get("cells"), list):
        old = isinstance(content, dict) and "worksheets" in content
        hint = "it has the format of before 2015; convert it with `jupyter nbconvert --to notebook`"
        raise NotebookError(f"the file is not a Jupyter notebook{f': {hint}' if old else ''}")
    if language(content.get("metadata")) not in ("python", "ipython", ""):
        return None
    cells = tuple(
        Cell(number, source)
        for number, cell in enumerate(content["cells"], 1)
        if isinstance(cell, dict) and cell.get("cell_type") == "code"
        for source in [joined(cell.get("source"))]
        if source.strip()
    )
    return assemble(cells)


def text_of(data: bytes) -> str:
    """The notebook's JSON as text; raises NotebookError when it is not UTF-8."""
    try:
        return data.removeprefix(UTF8_MARK).decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise NotebookError("the notebook is not UTF-8", line) from None


def language(metadata: Any) -> str:
    """The notebook's language in lower case, empty when it does not say."""
    for part, key in (("language_info", "name"), ("kernelspec", "language")):
        info = metadata.get(part) if isinstance(metadata, dict) else None
        name = info.get(key) if isinstance(info, dict) else None
        if isinstance(name, str) and name:
            return name.lower()
    return ""


def joined(source: Any) -> str:
    """A cell's `source`, which is one string or a list of them."""
    if isinstance(source, list):
        return "".join(part for part in source if isinstance(part, str))
    return source if isinstance(source, str) else ""


def assemble(cells: Sequence[Cell]) -> Notebook:
    """The notebook of `cells`: their Python in one text, cell after cell."""
    parts: list[str] = []
    first_lines: list[int] = []
    broken: list[tuple[Cell, SyntaxError]] = []
    line = 1
    for cell in cells:
        code, error = harmless(cell.source)
        if error is not None:
            broken.append((cell, error))
        first_lines.append(line)
        code = code if code.endswith(("\n", "\r")) else code + "\n"
        parts.append(code)
        line += len(LINE_END.findall(code))
    return Notebook(tuple(cells), "".join(parts), tuple(first_lines), tuple(broken))


#: cell magics whose body is Python of this notebook
PYTHON_CELL_MAGICS = frozenset(
    {"time", "timeit", "capture", "prun", "mprun", "memit", "python", "python3", "pyspy"}
)
CELL_MAGIC = re.compile(r"\s*%%(\w[\w.]*)")
#: `%time`, `%prun` and their like run the rest of the line here
LINE_MAGIC_WITH_CODE = re.compile(
    r"(?P<indent>[ \t]*)%(?P<name>time|timeit|prun|memit)(?P<gap>[ \t]+)(?=[\w(\[{])"
)
LINE_MAGIC = re.compile(r"[ \t]*(?:%|!|\?)")
HELP = re.compile(r"[ \t]*[\w.%*]+\?{1,2}[ \t]*;?[ \t]*$")
ASSIGNED = re.compile(r"(?P<target>[ \t]*[\w.,\[\]'\" \t]+?[ \t]*=[ \t]*)(?:!|%(?=[A-Za-z]))")
#: what IPython runs as a magic or in the shell without a mark, when it is no Python
AUTOMAGIC = re.compile(
    r"[ \t]*(?:pip|pip3|conda|mamba|uv|cd|ls|ll|cat|cp|mv|rm|mkdir|rmdir|pwd|man|more|less|env|load_ext|reload_ext|"
    r"matplotlib|config|autoreload|run|time|who|whos|git|wget|curl|unzip|nvidia-smi)\b"
)


def harmless(source: str) -> tuple[str, SyntaxError | None]:
    """A cell as Python of the same lines and columns, and the error when it cannot be made one."""
    magic = CELL_MAGIC.match(source)
    if magic:
        if magic[1] not in PYTHON_CELL_MAGICS:
            return blank(source), None
        at = source.find("%%")
        line = LINE_END.search(source, at)
        end = line.start() if line else len(source)
        source = source[:at] + "pass"[: max(end - at, 0)] + source[end:]
    if any(mark in source for mark in "%!?"):
        source = without_magics(source)
    for _ in range(len(LINE_END.findall(source)) + 1):
        error = syntax_error(source)
        if error is None:
            return source, None
        lines = LINE_END.split(source)
        number = error.lineno or 0
        if not 1 <= number <= len(lines) or not AUTOMAGIC.match(lines[number - 1]):
            return blank(source), error
        source = replace_line(source, number, indented_pass(lines[number - 1]))
    return blank(source), error


def blank(source: str) -> str:
    """As many empty lines as `source` has."""
    return "".join(LINE_END.findall(source))


def indented_pass(line: str) -> str:
    """`pass` where the line's code begins."""
    return line[: len(line) - len(line.lstrip())] + "pass"


def replace_line(source: str, number: int, new: str) -> str:
    """`source` with its line `number` replaced, its line end kept."""
    starts = [0, *(found.end() for found in LINE_END.finditer(source))]
    end = LINE_END.search(source, starts[number - 1])
    return source[: starts[number - 1]] + new + (source[end.start() :] if end else "")


def syntax_error(source: str) -> SyntaxError | None:
    """Why `source` does not parse."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(source)
    except SyntaxError as error:
        return error
    except (ValueError, RecursionError, MemoryError) as error:
        return SyntaxError(str(error) or "too deeply nested")
    return None


def without_magics(source: str) -> str:
    """`source` with line magics, shell commands and help requests replaced on their lines."""
    if syntax_error(source) is None:
        return source  # `%` and `!` are operators and text here
    inside = lines_inside_strings(source)
    out: list[str] = []
    lines, ends = LINE_END.split(source), [*LINE_END.findall(source), ""]
    continued = False
    for number, line in enumerate(lines, 1):
        new = line
        if continued:
            new = ""
            continued = line.rstrip().endswith("\\")
        elif number not in inside:
            new, magic = without_magic(line)
            continued = magic and line.rstrip().endswith("\\")
        out += [new, ends[number - 1]]
    return "".join(out)


def without_magic(line: str) -> tuple[str, bool]:
    """(a line with its magic replaced, whether there was one whose continuation lines go with it)."""
    timed = LINE_MAGIC_WITH_CODE.match(line)
    if timed:
        # `%time x = f()` becomes `0;    x = f()`: the statement keeps its columns.
        room = len(timed[0]) - len(timed["indent"])
        return timed["indent"] + "0;".ljust(room) + line[timed.end() :], False
    if LINE_MAGIC.match(line) or HELP.match(line):
        return indented_pass(line), True
    assigned = ASSIGNED.match(line)
    if assigned:
        return assigned["target"] + "get_ipython()", True
    return line, False


def lines_inside_strings(source: str) -> set[int]:
    """Lines that begin within a string of several lines: what looks like a magic there is text."""
    inside: set[int] = set()
    at = 0
    while found := STRING_OR_COMMENT.search(source, at):
        if found["string"]:
            first = len(LINE_END.findall(source[: found.start()])) + 1
            inside.update(range(first + 1, first + len(LINE_END.findall(found[0])) + 1))
        at = max(found.end(), at + 1)
    return inside


STRING_OR_COMMENT = re.compile(
    r"""(?P<string>\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?''')"""
    r"""|"(?:\\.|[^"\\\r\n])*"|'(?:\\.|[^'\\\r\n])*'|\#[^\r\n]*""",
    re.DOTALL,
)


# Writing back: places of the cells' sources in the JSON text.


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
