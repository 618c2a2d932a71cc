"""Points of a crash: what each frame was evaluating, from live frames or from a traceback's text."""

import ast
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from types import FrameType, TracebackType

from samedevice.live.tracebacks import TextFrame
from samedevice.model.diagnostic import Location
from samedevice.model.scene import Frame
from samedevice.program.files import PACKAGE, SKIP, USER, kind_of, package_of, shown
from samedevice.program.frames import (
    FUNCTIONS,
    Scope,
    Spot,
    location_of,
    scope_of,
    statement_of,
    statement_on_line,
    text_of,
    tree_of,
)
from samedevice.source.lines import lines_of

COMPREHENSIONS = ("<listcomp>", "<genexpr>", "<setcomp>", "<dictcomp>")


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """One frame of a crash.

    Attributes:
        node: the expression that was being evaluated, None when that is not known.
        statement: the statement that was running.
        kind: SKIP (torch, standard library), PACKAGE or USER.
        frame: the live frame, None for a traceback's text.
        caller: the user's point that called this one.
    """

    file: str
    line: int
    function: str
    node: ast.AST | None
    statement: ast.stmt | None
    kind: int
    frame: FrameType | None = None
    caller: "Point | None" = None

    @property
    def scope(self) -> Scope | None:
        """The function or module that was running."""
        if self.statement is None:
            return None
        node = self.node if self.node is not None else self.statement
        return scope_of(node) if not isinstance(node, ast.Module) else node

    @property
    def location(self) -> Location:
        """Where the failing expression stands."""
        if isinstance(self.node, (ast.expr, ast.stmt)) and self.node.lineno <= self.line <= (
            self.node.end_lineno or self.line
        ):
            return location_of(self.node, self.file)
        return Location(shown(self.file), self.line)

    @property
    def as_frame(self) -> Frame:
        """The frame as scenes know it."""
        statement = self.statement
        simple = statement is not None and not hasattr(statement, "body")
        return Frame(
            self.location,
            self.function,
            None,
            package_of(self.file) if self.kind == PACKAGE else None,
            text_of(statement, self.file) if statement is not None and simple else None,
        )


def live_points(traceback: TracebackType | None) -> list[Point]:
    """The points of a traceback's frames, outermost first; each knows the user's point that called it."""
    points: list[Point] = []
    caller: Point | None = None
    while traceback is not None:
        frame = traceback.tb_frame
        file = frame.f_code.co_filename
        kind = kind_of(file)
        spot = Spot(frame.f_code, traceback.tb_lasti)
        if kind == SKIP:
            point = Point(
                file, traceback.tb_lineno or 0, frame.f_code.co_name, None, None, kind, frame, caller
            )
        else:
            node = spot.node
            statement = (
                statement_of(node) if node is not None else statement_on_line(file, traceback.tb_lineno or 0)
            )
            point = Point(
                file, traceback.tb_lineno or 0, frame.f_code.co_name, node, statement, kind, frame, caller
            )
        points.append(point)
        if kind == USER:
            caller = point
        if point.function in COMPREHENSIONS and point.caller is not None:
            # The comprehension's own frame belongs to the function around it.
            point = replace(point, caller=point.caller.caller)
            points[-1] = caller = point
        traceback = traceback.tb_next
    return points


def text_points(frames: Sequence[TextFrame], files: dict[str, str]) -> list[Point]:
    """The points that a traceback's text tells, for frames whose file is at hand (`files`: path shown -> file)."""
    points: list[Point] = []
    caller: Point | None = None
    frames = [frame for frame in frames if not frame.is_ours]
    for number, frame in enumerate(frames):
        file = files.get(frame.path)
        if file is None or not frame.is_user:
            points.append(Point(frame.path, frame.line, frame.function, None, None, SKIP, None, caller))
            continue
        statement = statement_on_line(file, frame.line)
        inner = next((f for f in frames[number + 1 :] if f.is_user or f is frames[-1]), None)
        node = None if statement is None else _calling(statement, frame, inner, number + 1 == len(frames))
        points.append(
            Point(file, frame.line, frame.function or "<module>", node, statement, USER, None, caller)
        )
        caller = points[-1]
        if caller.function in COMPREHENSIONS and caller.caller is not None:
            points[-1] = caller = replace(caller, caller=caller.caller.caller)
    return points


def _calling(statement: ast.stmt, frame: TextFrame, inner: TextFrame | None, last: bool) -> ast.AST | None:
    """The call of the statement that led to the inner frame; the failing expression where there is none."""
    within: ast.AST = statement
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        within = statement.iter
    elif isinstance(statement, (ast.While, ast.If)):
        within = statement.test
    elif isinstance(statement, (ast.With, ast.AsyncWith)):
        within = ast.Tuple([i.context_expr for i in statement.items], ast.Load())
    elif isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
        return None
    on_line = [
        n
        for n in ast.walk(within)
        if isinstance(n, ast.expr) and n.lineno <= frame.line <= (n.end_lineno or n.lineno)
    ]
    if frame.marked is not None and (marked := _underlined(on_line, frame)) is not None:
        return marked
    if last:
        # Without carets the whole line failed, as far as the text tells.
        return None
    calls = [n for n in on_line if isinstance(n, ast.Call)]
    if inner is not None and not last:
        name = inner.function.rpartition(".")[2]
        named = [c for c in calls if _called(c.func) == name]
        if len(named) == 1:
            return named[0]
    return calls[0] if len(calls) == 1 else None


def _underlined(nodes: Sequence[ast.expr], frame: TextFrame) -> ast.AST | None:
    """The expression that the traceback's carets mark on its line."""
    assert frame.marked is not None
    for node in nodes:
        # Columns of the text are those of the stripped line; the first statement on it gives the indentation.
        statement = statement_of(node)
        if statement is None or node.lineno != frame.line or node.end_lineno != frame.line:
            continue
        indent = statement.col_offset if statement.lineno == frame.line else None
        if indent is None:
            continue
        if (node.col_offset - indent, (node.end_col_offset or 0) - indent) == frame.marked:
            return node
    return None


def _called(func: ast.expr) -> str:
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")


def user_points(points: Iterable[Point]) -> list[Point]:
    """The user's own points."""
    return [p for p in points if p.kind == USER and p.statement is not None]


def find_files(frames: Iterable[TextFrame], roots: Sequence[str]) -> dict[str, str]:
    """The files of a traceback that are at hand: path shown -> file.

    The traceback's own paths are tried first, then the longest tail of the path under each root.
    """
    found: dict[str, str] = {}
    for frame in frames:
        if frame.path in found or not frame.is_user or frame.cell is not None:
            continue
        if not roots and os.path.isfile(frame.path) and tree_of(frame.path) is not None:
            found[frame.path] = frame.path
            continue
        parts = frame.path.replace("\\", "/").lstrip("/~").split("/")
        for start in range(len(parts)):
            hits = [p for root in roots if os.path.isfile(p := os.path.join(root, *parts[start:]))]
            if hits:
                if _shows(hits[0], frame):
                    found[frame.path] = hits[0]
                break
        else:
            if os.path.isfile(frame.path) and _shows(frame.path, frame):
                found[frame.path] = frame.path
    return found


def _shows(file: str, frame: TextFrame) -> bool:
    """The file has the source line that the traceback shows; another version would mislead."""
    tree = tree_of(file)
    if tree is None:
        return False
    if not frame.source:
        return True
    try:
        with open(file, encoding="utf-8", errors="replace") as stream:
            lines = lines_of(stream.read())
    except OSError:
        return False
    if not 0 < frame.line <= len(lines):
        return False
    wanted, there = "".join(frame.source.split()), "".join(lines[frame.line - 1].split())
    return bool(there) and (wanted.startswith(there[:40]) or there.startswith(wanted[:40]))
