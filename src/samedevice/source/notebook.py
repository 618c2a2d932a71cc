"""Jupyter notebooks: the code cells as one Python text, and its lines as places in cells.

The text that is analysed is that of all code cells in order, magics made harmless without moving
anything: every character of a cell keeps its line and column.
"""

import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from samedevice.model.diagnostic import Diagnostic, Evidence, Location, Raised
from samedevice.model.fix import Edit, Fix, Point
from samedevice.source.decoding import UTF8_MARK
from samedevice.source.lines import LINE_END
from samedevice.source.magics import harmless


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
