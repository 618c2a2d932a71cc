"""From a point of execution to the source: the expression that runs, its statement, its scope."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FrameType, SimpleNamespace
from typing import Final

import executing

from samedevice.model.diagnostic import Location
from samedevice.program.files import PACKAGE, USER, kind_of, shown

Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.Module
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True, slots=True)
class Spot:
    """A point of execution: a code object and the offset of an instruction in it."""

    code: CodeType
    lasti: int

    @property
    def filename(self) -> str:
        return self.code.co_filename

    @property
    def line(self) -> int:
        """The source line of the instruction."""
        for start, end, line in self.code.co_lines():
            if start <= self.lasti < end and line is not None:
                return line
        return self.code.co_firstlineno

    @property
    def node(self) -> ast.AST | None:
        """The expression that is being evaluated, None when that cannot be told for sure."""
        return _node_at(self.filename, self.code, self.lasti)

    @property
    def statement(self) -> ast.stmt | None:
        """The statement that is being executed."""
        node = self.node
        if node is not None:
            return statement_of(node)
        return statement_on_line(self.filename, self.line)

    @property
    def location(self) -> Location:
        """The expression's place, or the line alone when the expression is unknown."""
        node = self.node
        if node is not None:
            return location_of(node, self.filename)
        return Location(shown(self.filename), self.line)

    @property
    def function(self) -> str:
        """Name of the function, without what encloses it."""
        return self.code.co_name

    @property
    def class_name(self) -> str | None:
        """The class whose method this is, by the code's qualified name."""
        parts = self.code.co_qualname.split(".")
        while parts and parts[-1] in ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>", "<lambda>"):
            parts = parts[:-2] if len(parts) > 1 and parts[-2] == "<locals>" else parts[:-1]
        return parts[-2] if len(parts) > 1 and parts[-2] != "<locals>" else None


@lru_cache(maxsize=4096)
def _node_at(filename: str, code: CodeType, lasti: int) -> ast.AST | None:
    # Code objects of two files are equal when their functions are: the file is part of the question.
    frame = SimpleNamespace(f_code=code, f_lasti=lasti, f_lineno=Spot(code, lasti).line, f_globals={})
    try:
        found = executing.Source.executing(frame).node
    except Exception:
        # executing answers None when it is unsure; sources that changed on disk make it fail otherwise.
        found = None
    return found if found is not None else _node_by_position(code, lasti)


def _node_by_position(code: CodeType, lasti: int) -> ast.AST | None:
    """The one node with exactly the instruction's span; what `executing` refuses may still be unique."""
    tree = tree_of(code.co_filename)
    positions = list(code.co_positions())
    if tree is None or lasti // 2 >= len(positions):
        return None
    span = positions[lasti // 2]
    if None in span:
        return None
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.expr)
        and (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset) == span
    ]
    return found[0] if len(found) == 1 else None


def source_of(filename: str) -> executing.Source:
    """The file's text, lines and tree; nodes of the tree have a `parent`."""
    return executing.Source.for_filename(filename)


def tree_of(filename: str) -> ast.Module | None:
    """The file's syntax tree, None when it cannot be read or parsed."""
    try:
        tree = source_of(filename).tree
    except Exception:
        return None
    return tree if isinstance(tree, ast.Module) else None


def parent_of(node: ast.AST) -> ast.AST | None:
    """The node around `node`."""
    return getattr(node, "parent", None)


def ancestors(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes around `node`, nearest first."""
    above = parent_of(node)
    while above is not None:
        yield above
        above = parent_of(above)


def statement_of(node: ast.AST) -> ast.stmt | None:
    """The statement that `node` belongs to (itself, when it is one)."""
    if isinstance(node, ast.stmt):
        return node
    return next((a for a in ancestors(node) if isinstance(a, ast.stmt)), None)


def statement_on_line(filename: str, line: int) -> ast.stmt | None:
    """The innermost statement that covers `line`."""
    tree = tree_of(filename)
    if tree is None:
        return None
    best: ast.stmt | None = None
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.stmt)
            and node.lineno <= line <= (node.end_lineno or node.lineno)
            and (best is None or node.lineno >= best.lineno)
        ):
            best = node
    return best


def scope_of(node: ast.AST) -> Scope | None:
    """The function, lambda or module in whose namespace `node` is evaluated."""
    return next((a for a in ancestors(node) if isinstance(a, (*FUNCTIONS, ast.Module))), None)


def class_of(node: ast.AST) -> ast.ClassDef | None:
    """The class whose body or method contains `node`."""
    return next((a for a in ancestors(node) if isinstance(a, ast.ClassDef)), None)


def in_loop(node: ast.AST) -> bool:
    """Whether `node` runs repeatedly within its own function."""
    for above in ancestors(node):
        if isinstance(above, (ast.For, ast.AsyncFor, ast.While)):
            return True
        if isinstance(above, (*FUNCTIONS, ast.ClassDef)):
            return False
    return False


def text_of(node: ast.AST, filename: str) -> str:
    """The node's source text on one line."""
    if isinstance(node, (ast.expr, ast.stmt)):
        lines = source_of(filename).lines
        if node.lineno == node.end_lineno and node.lineno <= len(lines):
            encoded = lines[node.lineno - 1].encode()
            return encoded[node.col_offset : node.end_col_offset].decode(errors="replace")
    return ast.unparse(node)


def location_of(node: ast.AST, filename: str) -> Location:
    """Where the node stands; compound statements end with their first line."""
    assert isinstance(node, (ast.expr, ast.stmt, ast.keyword, ast.arg, ast.ExceptHandler, ast.alias))
    lines = source_of(filename).lines
    path = shown(filename)
    column = _characters(lines, node.lineno, node.col_offset)
    if isinstance(node, ast.stmt) and hasattr(node, "body"):
        return Location(path, node.lineno, column)
    end_line = node.end_lineno or node.lineno
    end_column = _characters(lines, end_line, node.end_col_offset or 0)
    return Location(path, node.lineno, column, end_line, end_column)


def _characters(lines: list[str], line: int, offset: int) -> int:
    """A UTF-8 offset of the syntax tree as a column that counts characters from 1."""
    if line > len(lines):
        return offset + 1
    return len(lines[line - 1].encode()[:offset].decode(errors="replace")) + 1


def line_location(filename: str, line: int) -> Location:
    """The statement that starts on the line, or the line alone."""
    found = statement_on_line(filename, line)
    if found is not None and found.lineno == line:
        return location_of(found, filename)
    return Location(shown(filename), line)


def stack(frame: FrameType | None) -> list[FrameType]:
    """The frames of user code and installed packages, outermost first."""
    found: list[FrameType] = []
    while frame is not None:
        if kind_of(frame.f_code.co_filename) in (USER, PACKAGE):
            found.append(frame)
        frame = frame.f_back
    return found[::-1]


def user_frames(frame: FrameType | None) -> list[FrameType]:
    """The frames of user code, outermost first."""
    return [f for f in stack(frame) if kind_of(f.f_code.co_filename) == USER]


def spot_of(frame: FrameType) -> Spot:
    """Where the frame is now."""
    return Spot(frame.f_code, frame.f_lasti)


_SIGNS: Final[dict[type, str]] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.MatMult: "@", ast.Mod: "%",
    ast.Pow: "**", ast.FloorDiv: "//", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
}  # fmt: skip


def operator_of(node: ast.AST | None, filename: str) -> str | None:
    """What an expression or statement calls, in the words of its line."""
    if isinstance(node, ast.Call):
        return text_of(node.func, filename)
    if isinstance(node, ast.BinOp):
        return _SIGNS.get(type(node.op), "operator")
    if isinstance(node, ast.AugAssign):
        return _SIGNS.get(type(node.op), "operator") + "="
    if isinstance(node, ast.Subscript):
        return "indexing"
    if isinstance(node, ast.Compare):
        return "comparison"
    return None


def late_move(node: ast.Subscript, filename: str) -> dict[str, object]:
    """`table[index].to(device)`: the move comes after the indexing that needs it.

    Returns:
        "moved_after", the whole expression, and "moved_before", the same with the move first; nothing where
        no move follows.
    """
    above = getattr(node, "parent", None)
    while isinstance(above, (ast.Attribute, ast.Call)):
        if (
            isinstance(above, ast.Call)
            and isinstance(above.func, ast.Attribute)
            and above.func.attr in ("to", "cuda")
        ):
            given = ", ".join(text_of(a, filename) for a in above.args)
            table, index = text_of(node.value, filename), text_of(node.slice, filename)
            return {
                "moved_after": text_of(above, filename),
                "moved_before": f"{table}.{above.func.attr}({given})[{index}]",
            }
        above = getattr(above, "parent", None)
    return {}
