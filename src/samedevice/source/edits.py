"""Edits for fixes: the awkward syntax (trailing commas, comments, parentheses, tabs) is solved here once.

Nodes carry UTF-8 byte columns; edits count characters. Every function gives None when it cannot
make an edit that is certain to parse.
"""

import ast
import io
import re
import tokenize

from samedevice.model.diagnostic import Location
from samedevice.model.fix import Edit, Point
from samedevice.source.lines import LineIndex

_CACHE: dict[int, tuple[str, "Text"]] = {}


class Text:
    """A source text with the way from byte columns to characters."""

    __slots__ = ("index", "lines", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.index = LineIndex(text)
        self.lines = self.index.starts

    @classmethod
    def of(cls, text: str) -> "Text":
        """The one for `text`, kept while it is the latest."""
        known = _CACHE.get(len(text))
        if known is not None and known[0] is text:
            return known[1]
        made = cls(text)
        if len(_CACHE) > 8:
            _CACHE.clear()
        _CACHE[len(text)] = (text, made)
        return made

    def line(self, number: int) -> str:
        """A line with its end, counted from 1."""
        start = self.lines[number - 1]
        end = self.lines[number] if number < len(self.lines) else len(self.text)
        return self.text[start:end]

    def offset(self, line: int, byte_column: int) -> int:
        """The character offset of a node's position."""
        content = self.line(line)
        if content.isascii():
            return self.lines[line - 1] + byte_column
        return self.lines[line - 1] + len(content.encode()[:byte_column].decode(errors="ignore"))

    def start(self, node: ast.AST) -> int:
        """Where a node begins, decorators and enclosing parentheses not counted."""
        return self.offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]

    def end(self, node: ast.AST) -> int:
        """Where a node ends."""
        return self.offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def point(self, offset: int) -> Point:
        """The point of an offset."""
        return self.index.point(offset)

    def edit(self, path: str, start: int, end: int, new: str) -> Edit:
        """Replace the characters from `start` up to `end`."""
        return Edit(path, self.point(start), self.point(end), new)

    def source(self, node: ast.AST) -> str:
        """The text of a node."""
        return self.text[self.start(node) : self.end(node)]


def locate(path: str, text: str, node: ast.AST) -> Location:
    """The location of a node, in characters from 1."""
    if not hasattr(node, "lineno"):
        return Location(path, 1, 1)
    source = Text.of(text)
    if node.lineno > len(source.lines):
        return Location(path, node.lineno, 1)
    start, end = source.point(source.start(node)), source.point(source.end(node))
    if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.For | ast.With | ast.If | ast.While):
        return Location(path, start.line, start.column)
    return Location(path, start.line, start.column, end.line, end.column)


def add_keyword(path: str, text: str, call: ast.Call, keyword: str) -> Edit | None:
    """`keyword` ("device=x.device") as the last argument of `call`."""
    source = Text.of(text)
    if any(k.arg is None for k in call.keywords):
        return None
    name = keyword.partition("=")[0].strip()
    if any(k.arg == name for k in call.keywords):
        return None
    arguments = [*call.args, *[k.value for k in call.keywords]]
    close = source.end(call) - 1
    if source.text[close] != ")":
        return None
    if not arguments:
        return source.edit(path, close, close, keyword)
    last = max(arguments, key=source.end)
    at = source.end(last)
    while True:
        # the last argument may stand in parentheses of its own
        token, where = next_token(source.text, at, close)
        if token == ")":
            at = where + 1
            continue
        break
    if token == ",":
        after = where + 1
        rest, _ = next_token(source.text, after, close)
        if rest is None:
            return source.edit(
                path, after, after, f" {keyword}," if "\n" in source.text[after:close] else f" {keyword}"
            )
        return None
    if len(arguments) == 1 and isinstance(arguments[0], ast.GeneratorExp):
        inner = source.source(arguments[0])
        if not (
            source.text[source.start(arguments[0])] == "("
            and source.start(arguments[0]) > source.end(call.func)
        ):
            return None
        del inner
        if source.end(arguments[0]) == source.end(call):
            return None
    return source.edit(path, at, at, f", {keyword}")


def next_token(text: str, start: int, end: int) -> tuple[str | None, int]:
    """The next character that is neither blank nor part of a comment, and where it is."""
    at = start
    while at < end:
        character = text[at]
        if character == "#":
            stop = re.compile(r"\r\n|\r|\n").search(text, at)
            at = stop.end() if stop else end
            continue
        if character == "\\" or character.isspace():
            at += 1
            continue
        return character, at
    return None, end


def wrap(path: str, text: str, node: ast.AST, before: str, after: str) -> list[Edit]:
    """`before` and `after` round a node."""
    source = Text.of(text)
    start, end = source.start(node), source.end(node)
    return [source.edit(path, start, start, before), source.edit(path, end, end, after)]


def method_call(path: str, text: str, node: ast.expr, call: str) -> list[Edit]:
    """`.call` behind an expression, with parentheses where its syntax needs them."""
    simple = isinstance(
        node,
        ast.Name
        | ast.Attribute
        | ast.Subscript
        | ast.Call
        | ast.List
        | ast.Dict
        | ast.ListComp
        | ast.DictComp,
    )
    if simple:
        source = Text.of(text)
        end = source.end(node)
        return [source.edit(path, end, end, call)]
    source = Text.of(text)
    if in_parentheses(source, node):
        _, where = next_token(source.text, source.end(node), len(source.text))
        return [source.edit(path, where + 1, where + 1, call)]
    return wrap(path, text, node, "(", ")" + call)


def in_parentheses(source: Text, node: ast.AST) -> bool:
    """Whether a node stands in parentheses that are no call's."""
    start = source.start(node)
    before = source.text[:start].rstrip()
    token, _ = next_token(source.text, source.end(node), len(source.text))
    if not before.endswith("(") or token != ")":
        return False
    ahead = before[:-1].rstrip(" \t")
    return not ahead or not (ahead[-1].isalnum() or ahead[-1] in "_)]}\"'")


def parentheses_round(source: Text, low: int, start: int, end: int) -> tuple[int, int] | None:
    """A node's span with the parentheses that stand round it after `low`; None when they do not match."""
    opened, at, first = 0, low, start
    while True:
        token, where = next_token(source.text, at, start)
        if token is None:
            break
        if token == "(":
            first = where if opened == 0 else first
            opened += 1
        at = where + 1
    for _ in range(opened):
        token, where = next_token(source.text, end, len(source.text))
        if token != ")":
            return None
        end = where + 1
    return first, end


def replace(path: str, text: str, node: ast.AST, new: str) -> Edit:
    """`new` in place of a node."""
    source = Text.of(text)
    return source.edit(path, source.start(node), source.end(node), new)


def assign_result(path: str, text: str, statement: ast.Expr) -> Edit | None:
    """`x.to(device)` as a statement becomes `x = x.to(device)`."""
    call = statement.value
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    target = call.func.value
    probe: ast.AST = target
    while isinstance(probe, ast.Attribute | ast.Subscript):
        probe = probe.value
    if not isinstance(probe, ast.Name) or not isinstance(target, ast.Name | ast.Attribute | ast.Subscript):
        return None
    source = Text.of(text)
    start = source.start(statement)
    if source.start(call) != start:
        return None
    return source.edit(path, start, start, f"{source.source(target)} = ")


def statement_of(tree: ast.Module, node: ast.AST) -> ast.stmt | None:
    """The innermost statement around a node."""
    best: ast.stmt | None = None
    line, end = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
    pending: list[ast.stmt] = list(tree.body)
    while pending:
        statement = pending.pop()
        if not (statement.lineno <= line and (statement.end_lineno or 0) >= end):
            continue
        best = statement if best is None or statement.lineno >= best.lineno else best
        for name in ("body", "orelse", "finalbody"):
            pending.extend(getattr(statement, name, []) or [])
        for handler in getattr(statement, "handlers", []) or []:
            pending.extend(handler.body)
        for case in getattr(statement, "cases", []) or []:
            pending.extend(case.body)
    return best


def block_of(statement: ast.stmt, parent: ast.AST | None) -> list[ast.stmt]:
    """The statements of `parent` among which a statement stands; empty when it is none of them."""
    for name in ("body", "orelse", "finalbody"):
        block: object = getattr(parent, name, None)
        if isinstance(block, list) and statement in block:
            return block
    return []


def indentation(source: Text, statement: ast.stmt) -> str | None:
    """The white space before a statement, None when something else stands there."""
    before = source.line(statement.lineno)
    column = source.start(statement) - source.lines[statement.lineno - 1]
    return before[:column] if not before[:column].strip() else None


def insert_before(path: str, text: str, statement: ast.stmt, new: str) -> Edit | None:
    """A line of its own in front of a statement, at the same depth."""
    source = Text.of(text)
    indent = indentation(source, statement)
    if indent is None:
        return None
    start = source.lines[statement.lineno - 1] + len(indent)
    return source.edit(path, start, start, new + line_end(source) + indent)


def insert_first(
    path: str, text: str, block: ast.For | ast.While | ast.With | ast.FunctionDef, new: str
) -> Edit | None:
    """A line at the head of a block."""
    first = block.body[0]
    if (
        isinstance(block, ast.FunctionDef)
        and isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and len(block.body) > 1
    ):
        first = block.body[1]
    if first.lineno == block.lineno:
        return None
    return insert_before(path, text, first, new)


def whole_lines(source: Text, statement: ast.stmt) -> tuple[int, int] | None:
    """From the start of a statement's first line to the start of the line after it; None when it shares them."""
    if indentation(source, statement) is None:
        return None
    start = source.lines[statement.lineno - 1]
    last = statement.end_lineno or statement.lineno
    end = source.lines[last] if last < len(source.lines) else len(source.text)
    behind = source.text[source.end(statement) : end].strip()
    return (start, end) if not behind or behind.startswith("#") else None


def insert_after(path: str, text: str, statement: ast.stmt, new: str) -> Edit | None:
    """A line of its own behind a statement, at the same depth."""
    source = Text.of(text)
    indent, lines = indentation(source, statement), whole_lines(source, statement)
    if indent is None or lines is None:
        return None
    end = line_end(source)
    if lines[1] == len(source.text) and not source.text.endswith(("\n", "\r")):
        return source.edit(path, lines[1], lines[1], end + indent + new)
    return source.edit(path, lines[1], lines[1], indent + new + end)


def relocate(path: str, text: str, statement: ast.stmt, before: ast.stmt) -> list[Edit] | None:
    """Take a statement's lines to the front of another statement of the same depth."""
    source = Text.of(text)
    lines, place = whole_lines(source, statement), whole_lines(source, before)
    if lines is None or place is None or indentation(source, statement) != indentation(source, before):
        return None
    moved = source.text[lines[0] : lines[1]]
    if not moved.endswith(("\n", "\r")):
        moved += line_end(source)
    return [
        source.edit(path, lines[0], lines[1], ""),
        source.edit(path, place[0], place[0], moved),
    ]


def without_keyword(path: str, text: str, call: ast.Call, name: str) -> Edit | None:
    """The keyword argument taken out of a call, with its comma; None when a comment would be lost."""
    source = Text.of(text)
    at = next((k for k in call.keywords if k.arg == name), None)
    if at is None:
        return None
    start, end = source.start(at), source.end(at)
    close = source.end(call) - 1
    token, where = next_token(source.text, end, close)
    if token == ",":
        following, after = next_token(source.text, where + 1, close)
        end = after if following is not None else where + 1
    if token != "," or following is None:
        before = source.text[:start].rstrip()
        if before.endswith(","):
            start = len(before) - 1
    if "#" in source.text[start : source.start(at)] + source.text[source.end(at) : end]:
        return None
    return source.edit(path, start, end, "")


def line_end(source: Text) -> str:
    """The line end that a text uses."""
    first = re.search(r"\r\n|\r|\n", source.text)
    return first.group() if first else "\n"


def comments(text: str) -> list[str]:
    """All comments of a source; empty when it cannot be read."""
    try:
        return [
            t.string
            for t in tokenize.generate_tokens(io.StringIO(text).readline)
            if t.type == tokenize.COMMENT
        ]
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return []
