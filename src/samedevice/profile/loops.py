"""Which loops of the source an instruction is in, one by one for each frame of a stack."""

import ast
import dis
import linecache
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import Final, NamedTuple

from samedevice.profile.stacks import Frame, Stack

_FOR_ITER: Final = dis.opmap["FOR_ITER"]

Point = tuple[int, int]


class Loop(NamedTuple):
    """A loop of the source: its file and where it starts."""

    filename: str
    line: int
    column: int


@dataclass(slots=True)
class _Region:
    """Where the body of a loop is, and in which function.

    `headers` are the places that fetching the next item of a `for` is told to be at: its iterable,
    or (Python 3.11) the whole statement. It belongs to the loop.
    """

    loop: Loop
    spans: tuple[tuple[Point, Point], ...]
    function: int
    headers: tuple[tuple[Point, Point], ...] = ()


@dataclass(slots=True)
class _File:
    regions: list[_Region] = field(default_factory=list)
    functions: list[tuple[Point, Point, int]] = field(default_factory=list)


class Loops:
    """Answers for code objects; reads each file once."""

    def __init__(self) -> None:
        self._files: dict[str, _File] = {}
        self._frames: dict[Frame, tuple[Loop, ...]] = {}
        self._stacks: dict[Stack, tuple[Loop, ...]] = {}

    def of_stack(self, stack: Stack) -> tuple[Loop, ...]:
        """The loops around an event, outermost first."""
        known = self._stacks.get(stack)
        if known is None:
            found: dict[Loop, None] = {}
            for frame in reversed(stack.frames):
                found.update(dict.fromkeys(self.of_frame(frame)))
            known = self._stacks[stack] = tuple(found)
        return known

    def fetching(self, stack: Stack) -> tuple[Loop, ...]:
        """The loops that are just fetching their next item, from a generator further in for instance."""
        found = []
        for frame in stack.frames:
            loops = self.of_frame(frame)
            if loops and frame.lasti >= 0 and frame.code.co_code[frame.lasti] == _FOR_ITER:
                found.append(loops[-1])
        return tuple(found)

    def of_frame(self, frame: Frame) -> tuple[Loop, ...]:
        """The loops around an instruction in its own function, outermost first."""
        known = self._frames.get(frame)
        if known is None:
            known = self._frames[frame] = tuple(self._find(frame.code, frame.lasti))
        return known

    def _find(self, code: CodeType, lasti: int) -> Iterator[Loop]:
        start, end = span_of(code, lasti)
        if start is None or end is None:
            return
        file = self._file(code.co_filename)
        inside = [f for f in file.functions if f[0] <= start and end <= f[1]]
        function = max(inside)[2] if inside else 0
        fetching = lasti >= 0 and code.co_code[lasti] == _FOR_ITER
        for region in file.regions:
            if region.function != function:
                continue
            if any(first <= start and end <= last for first, last in region.spans) or (
                fetching and (start, end) in region.headers
            ):
                yield region.loop

    def _file(self, filename: str) -> _File:
        known = self._files.get(filename)
        if known is None:
            known = self._files[filename] = _File()
            try:
                tree = ast.parse("".join(linecache.getlines(filename)))
            except (SyntaxError, ValueError, RecursionError):
                return known
            _collect(tree, 0, filename, known)
        return known


def span_of(code: CodeType, lasti: int) -> tuple[Point | None, Point | None]:
    """Start and end of the source text of an instruction: (line, column in bytes)."""
    for index, (line, end_line, column, end_column) in enumerate(code.co_positions()):
        if index * 2 == lasti:
            if line is None or end_line is None or column is None or end_column is None:
                return None, None
            return (line, column), (end_line, end_column)
    return None, None


def _start(node: ast.AST) -> Point:
    return (node.lineno, node.col_offset)  # type: ignore[attr-defined]


def _span(first: ast.AST, last: ast.AST | None = None) -> tuple[Point, Point]:
    last = last or first
    return _start(first), (last.end_lineno, last.end_col_offset)  # type: ignore[attr-defined]


def _collect(node: ast.AST, function: int, filename: str, file: _File) -> None:
    for child in ast.iter_child_nodes(node):
        inner = function
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            inner = len(file.functions) + 1
            file.functions.append((*_span(child), inner))
        region = _region(child, function, filename)
        if region is not None:
            file.regions.append(region)
        _collect(child, inner, filename, file)


def _region(node: ast.AST, function: int, filename: str) -> _Region | None:
    if isinstance(node, (ast.For, ast.AsyncFor)):
        loop = Loop(filename, *_start(node))
        headers = (_span(node.iter), _span(node))
        return _Region(loop, (_span(node.body[0], node.body[-1]),), function, headers)
    if isinstance(node, ast.While):
        body = _span(node.body[0], node.body[-1])
        return _Region(Loop(filename, *_start(node)), (body, _span(node.test)), function)
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
        parts: list[ast.AST] = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        first, *others = node.generators
        parts += [*first.ifs, *(part for g in others for part in (g.iter, *g.ifs))]
        loop = Loop(filename, *_start(node))
        return _Region(loop, tuple(map(_span, parts)), function, (_span(first.iter), _span(node)))
    return None
