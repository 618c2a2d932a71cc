"""Edits of calls: a keyword added, a method taken off; awkward commas and comments solved once."""

import ast
import io
import tokenize

from samedevice.model.diagnostic import Location
from samedevice.model.fix import Edit, Point

_SKIPPED = (
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.COMMENT,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)


class SourceCalls:
    """The calls of one file."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.lines = text.splitlines(keepends=True)
        self.text = text
        try:
            self.tree: ast.AST | None = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            self.tree = None

    def at(self, location: Location) -> ast.expr | None:
        """The largest expression that has exactly this span."""
        found = None
        for node in ast.walk(self.tree) if self.tree is not None else ():
            if isinstance(node, ast.expr) and self._span(node) == (
                (location.line, location.column),
                (location.end_line, location.end_column),
            ):
                found = node
                break
        return found

    def statement_at(self, location: Location) -> ast.stmt | None:
        """The smallest statement around the start of this place."""
        best = None
        for node in ast.walk(self.tree) if self.tree is not None else ():
            if isinstance(node, ast.stmt):
                (first, start), (last, end) = self._span(node)
                if (first, start) <= (location.line, location.column) <= (last, end):
                    best = node
        return best

    def call_at_line(self, line: int, names: tuple[str, ...]) -> ast.Call | None:
        """The only call on this line of something whose name ends in one of `names`."""
        found = [
            node
            for node in (ast.walk(self.tree) if self.tree is not None else ())
            if isinstance(node, ast.Call) and node.lineno == line and self.segment(node.func).endswith(names)
        ]
        return found[0] if len(found) == 1 else None

    def segment(self, node: ast.AST) -> str:
        """The node's source text."""
        return ast.get_source_segment(self.text, node) or ""

    def with_keyword(self, call: ast.Call, name: str, value: str) -> Edit | None:
        """Give the call `name=value`; None where it has that keyword in another form, or `**`."""
        for keyword in call.keywords:
            if keyword.arg is None:
                return None
            if keyword.arg == name:
                is_constant = isinstance(keyword.value, ast.Constant)
                return self._replace(keyword.value, keyword.value, value) if is_constant else None
        place, comma = self._before_closing(call)
        if place is None:
            return None
        return Edit(self.path, place, place, f"{', ' if comma else ''}{name}={value}")

    def without_method(self, outer: ast.Call, inner: ast.expr) -> Edit:
        """`inner.method(…)` becomes `inner`."""
        end = self._span(outer)[1]
        return Edit(self.path, self._point(self._span(inner)[1]), self._point(end), "")

    def renamed_method(self, call: ast.Call, name: str) -> Edit | None:
        """`x.old()` becomes `x.name()`."""
        if not isinstance(call.func, ast.Attribute):
            return None
        end = self._span(call.func)[1]
        start = (end[0], end[1] - len(call.func.attr))
        return Edit(self.path, self._point(start), self._point(end), name)

    def _replace(self, first: ast.AST, last: ast.AST, new: str) -> Edit:
        return Edit(self.path, self._point(self._span(first)[0]), self._point(self._span(last)[1]), new)

    def _before_closing(self, call: ast.Call) -> tuple[Point | None, bool]:
        """Where a new argument goes, and whether it needs a comma before it."""
        segment = self.segment(call)
        try:
            tokens = [
                t for t in tokenize.generate_tokens(io.StringIO(segment).readline) if t.type not in _SKIPPED
            ]
        except (tokenize.TokenError, SyntaxError):
            return None, False
        if len(tokens) < 2 or tokens[-1].string != ")":
            return None, False
        before = tokens[-2]
        line, column = before.end
        start_line, start_column = self._span(call)[0]
        at = Point(start_line + line - 1, column + (start_column if line == 1 else 1))
        return at, before.string not in ("(", ",")

    def _span(self, node: ast.AST) -> tuple[tuple[int, int], tuple[int, int]]:
        """Lines and columns as locations count them: from 1, in characters."""
        line, column = node.lineno, node.col_offset  # type: ignore[attr-defined]
        end_line, end_column = node.end_lineno, node.end_col_offset  # type: ignore[attr-defined]
        return (line, self._column(line, column)), (end_line, self._column(end_line, end_column))

    def _column(self, line: int, offset: int) -> int:
        if not 0 < line <= len(self.lines):
            return offset + 1
        return len(self.lines[line - 1].encode()[:offset].decode(errors="ignore")) + 1

    @staticmethod
    def _point(place: tuple[int, int]) -> Point:
        return Point(*place)
