"""Where a module is moved: on its variable, where it is made, in functions that it is handed to."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from samedevice.live.devices import decide
from samedevice.live.origins import MOVES, Tracer
from samedevice.live.points import Point
from samedevice.live.resolving import Where
from samedevice.live.sources import Found
from samedevice.model.scene import Action, Decision, Step
from samedevice.program import bindings as b
from samedevice.program.frames import ancestors, location_of, scope_of, text_of
from samedevice.program.values import MISSING, evaluate_in


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """A module on the way from the failing layer out to the root: the expression that calls it."""

    node: ast.expr
    point: Point

    @property
    def where(self) -> Where:
        return Where(self.point.file, self.point.line, self.point)

    @property
    def value(self) -> Any:
        """The live module, MISSING when unknown."""
        if self.point.frame is None:
            return MISSING
        return evaluate_in(self.node, self.point.frame)


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """A call that moves a module."""

    node: ast.Call
    file: str
    device: str | None
    decision: Decision | None

    def step(self, device: str) -> Step:
        """The move as a step."""
        method = b.method_of(self.node)
        return Step(
            Action.MOVED,
            "Module.to",
            location_of(self.node, self.file),
            device,
            True,
            text_of(self.node, self.file),
            method.name if method is not None else "<module>",
        )


class MoveReader:
    """Finds the moves of modules."""

    def __init__(self, tracer: Tracer, wanted: str) -> None:
        self.tracer = tracer
        self.wanted = wanted

    def moves(self, level: Level) -> Iterator[Move]:
        """Calls that move the module: on its variable, where it is made, in functions it is handed to."""
        seen: set[int] = set()
        for value, inner in self.tracer.definitions(level.node, level.where):
            for call in _move_calls(value):
                if id(call) not in seen and call is value:
                    seen.add(id(call))
                    yield self._move(call, inner)
        for move in self._moves_by_name(level.node, level.point.file, level.point):
            if id(move.node) not in seen:
                seen.add(id(move.node))
                yield move

    def _moves_by_name(
        self, node: ast.expr, file: str, point: Point | None = None, later: bool = False
    ) -> Iterator[Move]:
        """`model.to(…)` in the scope of the variable, and in functions that get it as an argument.

        `later`: also below the use, where no loop comes back to it.
        """
        if not isinstance(node, ast.Name):
            if isinstance(node, ast.Attribute):
                yield from self._moves_of_attribute(node, file, point)
            return
        scope = scope_of(node)
        if scope is None or isinstance(scope, ast.Lambda):
            return
        bound = b.bindings_in(scope, node.id, file)
        if not bound and not isinstance(scope, ast.Module):
            outer = scope
            while outer is not None and not isinstance(outer, ast.Module):
                outer = scope_of(outer)  # type: ignore[assignment]
            scope = outer or scope
            bound = b.bindings_in(scope, node.id, file)
        lines = [x.line for x in bound if x.line <= node.lineno]
        since = max(lines) if lines and isinstance(scope_of(node), type(scope)) else 0
        for part in _in_order(scope):
            if not later and part.lineno > node.lineno and not _share_loop(part, node):
                continue
            func = part.func
            if (
                isinstance(func, ast.Attribute)
                and func.attr in MOVES
                and _root_name(func.value) == node.id
                and part.lineno >= since
            ):
                yield self._move(part, Where(file, part.lineno))
            elif part.lineno >= since and any(
                isinstance(a, ast.Name) and a.id == node.id
                for a in (*part.args, *(k.value for k in part.keywords))
            ):
                yield from self._moves_in_callee(part, node.id, Where(file, part.lineno, point))
        if (
            point is not None
            and any(x.how == "parameter" for x in bound)
            and point.caller is not None
            and isinstance(point.caller.node, ast.Call)
        ):
            method = point.scope
            if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)):
                argument, _ = b.argument_of(point.caller.node, method, node.id, b.is_method(method))
                if argument is not None:
                    yield from self._moves_by_name(argument, point.caller.file, point.caller)

    def _moves_in_callee(self, call: ast.Call, name: str, where: Where, depth: int = 3) -> Iterator[Move]:
        """Moves of the argument `name` in the function that is called, and in those that it calls."""
        callee = self.tracer.callee(call, where)
        if (
            callee is None
            or not isinstance(callee.node, (ast.FunctionDef, ast.AsyncFunctionDef))
            or depth == 0
        ):
            return
        bound = b.is_method(callee.node)
        inner = Where(callee.file, callee.node.lineno, None, (call, where))
        for parameter in b.parameters(callee.node):
            argument, _ = b.argument_of(call, callee.node, parameter.arg, bound)
            if not isinstance(argument, ast.Name) or argument.id != name:
                continue
            for part in _in_order(callee.node):
                func = part.func
                if (
                    isinstance(func, ast.Attribute)
                    and func.attr in MOVES
                    and _root_name(func.value) == parameter.arg
                ):
                    yield self._move(part, inner)
                elif any(isinstance(a, ast.Name) and a.id == parameter.arg for a in part.args):
                    yield from self._moves_in_callee(part, parameter.arg, inner, depth - 1)

    def _moves_of_attribute(self, node: ast.Attribute, file: str, point: Point | None) -> Iterator[Move]:
        owner = self.tracer.owner_of(node.value, Where(file, node.lineno, point))
        if owner is None:
            return
        for kind in self.tracer.sources.lineage(owner):
            yield from self.attribute_moves(kind, node.attr)

    def attribute_moves(self, kind: Found, name: str) -> Iterator[Move]:
        """`self.<name>.to(…)` in the class."""
        for part in _in_order(kind.node):
            func = part.func
            if (
                isinstance(func, ast.Attribute)
                and func.attr in MOVES
                and isinstance(func.value, ast.Attribute)
                and func.value.attr == name
            ):
                yield self._move(part, Where(kind.file, part.lineno, owner=kind))

    def _move(self, call: ast.Call, where: Where) -> Move:
        assert isinstance(call.func, ast.Attribute)
        chosen = (
            call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "device"), None)
        )
        device = "cpu" if call.func.attr == "cpu" else None
        decision = (
            decide(chosen, where, self.tracer)
            if chosen is not None
            else Decision("literal", location_of(call, where.file), text_of(call, where.file))
        )
        if device is None and decision is not None:
            text = decision.default or decision.expression
            device = (
                "cpu"
                if decision.how in ("literal", "global", "omitted") and text.strip("'\"") == "cpu"
                else None
            )
        return Move(call, where.file, device, decision)


def _in_order(scope: ast.AST) -> list[ast.Call]:
    """The calls in a scope in the order of the text."""
    found = [n for n in ast.walk(scope) if isinstance(n, ast.Call)]
    return sorted(found, key=lambda n: (n.lineno, n.col_offset))


def _share_loop(one: ast.AST, other: ast.AST) -> bool:
    """A loop runs both again and again."""
    loops = (ast.For, ast.AsyncFor, ast.While)
    around = {id(a) for a in ancestors(one) if isinstance(a, loops)}
    return any(id(a) in around for a in ancestors(other) if isinstance(a, loops))


def _move_calls(node: ast.expr) -> Iterator[ast.Call]:
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in MOVES:
            yield node
        node = node.func.value


def _root_name(node: ast.expr) -> str | None:
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value
    return node.id if isinstance(node, ast.Name) else None
