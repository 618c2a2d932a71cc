"""What the sources, and live modules where there are any, tell of a module whose state is out of place."""

import ast
from dataclasses import replace
from typing import Any

from samedevice.live.candidates import is_module_made, module_device
from samedevice.live.moves import Level, Move, MoveReader
from samedevice.live.origins import MODULE, Origin, Station, Where
from samedevice.live.points import Point
from samedevice.live.sources import Found
from samedevice.model.scene import Action, ModuleFact, Step
from samedevice.program import bindings as b
from samedevice.program.frames import class_of, location_of, scope_of, statement_of, text_of
from samedevice.program.values import MISSING, is_module


class ModuleReader(MoveReader):
    """Reads what is known of modules."""

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
