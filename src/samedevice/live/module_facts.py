"""What the sources, and live modules where there are any, tell of a module whose state is out of place."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from samedevice.live.candidates import is_module_made, module_device
from samedevice.live.devices import decide
from samedevice.live.origins import MODULE, MOVES, Origin, Station, Tracer, Where
from samedevice.live.points import Point
from samedevice.live.sources import Found
from samedevice.model.scene import Action, Decision, ModuleFact, Step
from samedevice.program import bindings as b
from samedevice.program.frames import ancestors, class_of, location_of, scope_of, statement_of, text_of
from samedevice.program.values import MISSING, evaluate_in, is_module


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


class ModuleReader:
    """Reads what is known of modules."""

    def __init__(self, tracer: Tracer, wanted: str) -> None:
        self.tracer = tracer
        self.wanted = wanted

    def levels(self, node: ast.expr, point: Point) -> list[Level]:
        """From the failing layer out to the root, as the frames on the stack call them."""
        found = [Level(node, point)]
        while point.caller is not None:
            outer = point.caller
            method = point.scope
            if not isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)) or not b.is_method(method):
                break
            owner = self.tracer.sources.class_around(method, point.file)
            if owner is None or not self.tracer.sources.is_module_class(owner):
                break
            if not isinstance(outer.node, ast.Call) or not self._reached_through_self(found[-1].node, method):
                break
            func = outer.node.func
            if method.name not in ("forward", "__call__") and isinstance(func, ast.Attribute):
                func = func.value
            found.append(Level(func, outer))
            point = outer
        return found

    @staticmethod
    def _reached_through_self(node: ast.expr, method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        first = method.args.args[0].arg if method.args.args else ""
        names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        if first in names:
            return True
        # `for block in self.blocks: block(x)`
        for name in names:
            for binding in b.bindings_in(method, name, ""):
                if binding.value is not None and any(
                    isinstance(n, ast.Name) and n.id == first for n in ast.walk(binding.value)
                ):
                    return True
        return any(
            isinstance(n, ast.comprehension)
            and any(isinstance(i, ast.Name) and i.id == first for i in ast.walk(n.iter))
            for n in ast.walk(method)
        )

    def fact(self, node: ast.expr, point: Point, leaf: Any = MISSING) -> ModuleFact | None:
        """What is known of the module at fault: of the outermost one whose state lies with the stray's."""
        levels = self.levels(node, point)
        stray = self.tracer.stray
        at = self._guilty(levels, leaf)
        level = levels[at]
        root = levels[-1]
        origins = self.tracer.trace(level.node, level.where)
        made = next((o for o in origins if o.function == MODULE), None)
        if made is None:
            made = next((o for o in origins if o.function == "copy.deepcopy"), None)
        kept = self._kept(made)
        root_origins = origins if root is level else self.tracer.trace(root.node, root.where)
        root_made = next((o for o in root_origins if o.function == MODULE), None)
        moves = list(self.moves(level))
        root_moves = moves if root is level else list(self.moves(root))
        copied = self._copied(level)
        created = made if made is not None else root_made
        if copied is not None:
            created = None
        steps = tuple(
            replace(m.step("cpu" if m.device == "cpu" else self.wanted), order=number)
            for number, m in enumerate(moves, 1)
        )
        to_gpu = [m for m in root_moves if m.device != "cpu"]
        joined: Step | None = None
        host_moves: tuple[Step, ...] = ()
        if (
            at < len(levels) - 1
            and kept is None
            and to_gpu
            and made is not None
            and self._in_forward(made) is None
        ):
            root_device = module_device(root.value, self.tracer)
            late = root_device != stray if leaf is not MISSING else self._joins_late(made, to_gpu)
            if late:
                joined = self._seen_from(to_gpu[-1], self._construction_call(made))
                host_moves = tuple(m.step(self.wanted) for m in to_gpu)
        if joined is None and kept is None and to_gpu and level is root:
            joined = self._added(root, to_gpu)
            host_moves = tuple(m.step(self.wanted) for m in to_gpu) if joined is not None else ()
        here = [m for m in moves if (m.device == "cpu") == (stray == "cpu")]
        decision = (here or moves)[-1].decision if moves else None
        return ModuleFact(
            owner=text_of(level.node, level.point.file),
            class_name=_class_name(made, level.value),
            device=stray,
            registered=kept is None,
            root=text_of(root.node, root.point.file),
            created=None if created is None else self._creation(created),
            moves=steps,
            is_loss=_class_name(made, level.value).lower().endswith("loss"),
            is_metric=self._is_metric(made, level.value),
            copied=None if copied is None else copied[0],
            copy_of=None if copied is None else copied[1],
            original_moves=() if copied is None else copied[2],
            kept=None if kept is None else kept[0],
            keeper=None if kept is None else kept[1],
            keeper_path=None if kept is None else kept[2],
            keeper_moves=()
            if kept is None
            else tuple(m.step(self.wanted) for m in to_gpu) or self._assumed(root),
            joined=joined,
            host_moves=host_moves,
            root_class=_class_name(root_made, root.value),
            root_device=module_device(root.value, self.tracer),
            in_forward=None if made is None else self._in_forward(made),
            decision=decision,
            never_moved=not moves and not root_moves,
        )

    def _guilty(self, levels: list[Level], leaf: Any) -> int:
        """The outermost level all of whose parameters lie with the stray; statically the first that tells."""
        if leaf is not MISSING or any(is_module(level.value) for level in levels):
            best = 0
            for number, level in enumerate(levels):
                if is_module(level.value):
                    if module_device(level.value, self.tracer) == self.tracer.stray:
                        best = number
                    else:
                        break
            # A module in a plain list has a root that lies elsewhere and does not count it among its own.
            return best
        to_gpu = [m for m in self.moves(levels[-1]) if m.device != "cpu"]
        for number, level in enumerate(levels):
            made = next((o for o in self.tracer.trace(level.node, level.where) if o.function == MODULE), None)
            if made is None:
                continue
            if self._kept(made) is not None or self._in_forward(made) is not None:
                return number
            if number < len(levels) - 1 and self._joins_late(made, to_gpu):
                return number
        return len(levels) - 1

    def _added(self, root: Level, to_gpu: list[Move]) -> Step | None:
        """`model.append(…)`, `model.head = …` below the move of the model, in the same function."""
        if not isinstance(root.node, ast.Name) or (
            is_module(root.value) and module_device(root.value, self.tracer) == self.wanted
        ):
            return None
        move = to_gpu[-1]
        scope = scope_of(move.node)
        name = root.node.id
        where = Where(move.file, 1 << 30)
        for node in ast.walk(scope) if scope is not None else ():
            value: ast.expr | None = None
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
                adds = node.func.attr in ("append", "add_module", "insert", "extend", "register_module")
                if adds and isinstance(node.func.value, ast.Name) and node.func.value.id == name:
                    value = node.args[-1]
            elif isinstance(node, ast.Assign):
                target = node.targets[0]
                while isinstance(target, (ast.Attribute, ast.Subscript)):
                    target = target.value
                if isinstance(target, ast.Name) and target.id == name and target is not node.targets[0]:
                    value = node.value
            if (
                value is None
                or value.lineno <= move.node.lineno
                or not is_module_made(value, where, self.tracer)
            ):
                continue
            statement = statement_of(node) or node
            return Step(
                Action.CREATED,
                "nn.Module",
                location_of(statement, move.file),
                "cpu",
                None,
                text_of(statement, move.file),
            )
        return None

    def _joins_late(self, made: Origin, to_gpu: list[Move]) -> bool:
        """In the function that moves the root, the module is made below the move."""
        if not to_gpu:
            return False
        call = self._construction_call(made)
        if call.node is made.node:
            return False
        step = self._seen_from(to_gpu[-1], call)
        move = to_gpu[-1]
        same = step.function_name == getattr(b.method_of(move.node), "name", "<module>")
        return same and step.location is not None and step.location.line > move.node.lineno

    # -- where it was made and kept -------------------------------------------------------------------

    def _creation(self, made: Origin) -> Step:
        return Step(
            Action.CREATED,
            text_of(made.node.func, made.file) if isinstance(made.node, ast.Call) else "module",
            location_of(made.node, made.file),
            "cpu",
            None,
            text_of(made.node, made.file),
            getattr(b.method_of(made.node), "name", "<module>"),
            getattr(class_of(made.node), "name", None),
        )

    def _construction_call(self, made: Origin) -> Found:
        """The call that built the module from outside: of the class of which it is an attribute."""
        owner = class_of(made.node)
        method = b.method_of(made.node)
        if owner is not None and method is not None and method.name == "__init__":
            for call in self.tracer.sources.constructions(Found(owner, made.file)):
                return call
        return Found(made.node, made.file)

    def _seen_from(self, move: Move, call: Found) -> Step:
        """The call as a step of the function in which the move happened, when that called its way there."""
        scope, current = scope_of(move.node), call
        for _ in range(4):
            if scope_of(current.node) is scope:
                break
            method = b.method_of(current.node)
            if method is None:
                break
            outer = [
                c
                for c in self.tracer.sources.calls(method.name)
                if scope_of(c.node) is not method and scope_of(c.node) is not None
            ]
            same = [c for c in outer if scope_of(c.node) is scope]
            if not outer:
                break
            current = (same or outer)[0]
        shown = current if scope_of(current.node) is scope else call
        return Step(
            Action.CREATED,
            "nn.Module",
            location_of(shown.node, shown.file),
            "cpu",
            None,
            text_of(shown.node, shown.file),
            getattr(b.method_of(shown.node), "name", "<module>"),
        )

    def _kept(self, made: Origin | None) -> tuple[Step, str, str] | None:
        """(statement, class, path) when a plain list, dict or foreign attribute keeps the module."""
        if made is None:
            return None
        for station in made.stations:
            if (
                station.how != "attribute"
                or station.owner is None
                or not self.tracer.sources.is_module_class(station.owner)
            ):
                continue
            if self._is_plain(station):
                step = Step(
                    Action.CACHED,
                    "kept",
                    location_of(station.node, station.file),
                    expression=text_of(station.node, station.file),
                )
                assert isinstance(station.owner.node, ast.ClassDef)
                return step, station.owner.node.name, f"self.{station.name}"
            return None
        return None

    def _is_plain(self, station: Station) -> bool:
        """The attribute is a list, tuple or dict of Python's own; `nn.ModuleList([…])` is not."""
        value = station.source
        if isinstance(value, (ast.List, ast.ListComp, ast.Tuple, ast.Dict, ast.DictComp)):
            return True
        statement = station.node
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            # `self.heads.append(…)`: plain when the attribute starts as `[]`.
            assert station.owner is not None
            every = [
                s
                for c in self.tracer.sources.lineage(station.owner)
                for n in ast.walk(c.node)
                for s in b._stores(n, station.name, c.file, owner="self")
            ]
            return any(isinstance(s.value, (ast.List, ast.Dict)) and s.how == "assign" for s in every)
        return isinstance(statement, ast.Assign) and any(
            isinstance(t, ast.Subscript) for t in statement.targets
        )

    @staticmethod
    def _in_forward(made: Origin) -> str | None:
        method = b.method_of(made.node)
        owner = class_of(made.node)
        if method is None or owner is None or method.name != "forward":
            return None
        return owner.name

    def _copied(self, level: Level) -> tuple[Step, str | None, tuple[Step, ...]] | None:
        """(the deep copy, of what, moves of the original) when the module is a copy."""
        for value, inner in self.tracer.definitions(level.node, level.where):
            if not isinstance(value, ast.Call):
                continue
            name = self.tracer.sources.qualified(value.func, inner.file) or ""
            if name not in ("copy.deepcopy", "copy.copy") or not value.args:
                continue
            source = value.args[0]
            step = Step(
                Action.COPIED,
                name,
                location_of(value, inner.file),
                "cpu",
                None,
                text_of(value, inner.file),
                getattr(b.method_of(value), "name", "<module>"),
            )
            original: list[Step] = []
            shown = text_of(source, inner.file)
            method = b.method_of(value)
            if isinstance(source, ast.Name) and method is not None:
                # The copy is taken inside a helper; seen from outside it is the call that counts.
                for argument, outer in self.tracer.arguments(method, source.id, inner):
                    shown = text_of(argument, outer.file)
                    call = next(
                        (c for c in (argument, getattr(argument, "parent", None)) if isinstance(c, ast.Call)),
                        None,
                    )
                    if call is not None:
                        step = Step(
                            Action.COPIED,
                            name,
                            location_of(call, outer.file),
                            "cpu",
                            None,
                            text_of(call, outer.file),
                        )
                    later = [
                        m
                        for m in self._moves_by_name(argument, outer.file, later=True)
                        if m.node.lineno > argument.lineno
                    ]
                    original += [m.step(self.wanted) for m in later if m.device != "cpu"]
            elif isinstance(source, ast.Name):
                later = [
                    m
                    for m in self._moves_by_name(source, inner.file, later=True)
                    if m.node.lineno > source.lineno
                ]
                original += [m.step(self.wanted) for m in later if m.device != "cpu"]
            return step, shown, tuple(original)
        return None

    def _is_metric(self, made: Origin | None, live: Any) -> bool:
        if is_module(live):
            kind = type(live)
            return hasattr(kind, "update") and hasattr(kind, "compute")
        if made is None or not isinstance(made.node, ast.Call):
            return False
        found = self.tracer.sources.definition(made.node.func, made.file)
        if found is None or not isinstance(found.node, ast.ClassDef):
            return False
        return all(self.tracer.sources.method(found, n) is not None for n in ("update", "compute"))

    def _assumed(self, root: Level) -> tuple[Step, ...]:
        """The root is seen to lie where it belongs, so it was moved, wherever that was written."""
        if module_device(root.value, self.tracer) == self.wanted:
            return (Step(Action.MOVED, "Module.to", None, self.wanted),)
        return ()

    # -- moves -----------------------------------------------------------------------------------------

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


def _class_name(made: Origin | None, live: Any) -> str:
    if is_module(live):
        return type(live).__name__
    if made is not None and isinstance(made.node, ast.Call):
        return (
            made.node.func.attr
            if isinstance(made.node.func, ast.Attribute)
            else getattr(made.node.func, "id", "module")
        )
    return "module"


__all__ = ["Level", "ModuleReader", "Move", "is_module_made", "statement_of"]
