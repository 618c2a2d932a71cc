"""Who holds an operand: attributes of modules and of other objects, their moves, their aliases."""

import ast
import re
from dataclasses import replace
from typing import Any

from samedevice.live.candidates import module_device
from samedevice.live.module_facts import ModuleReader
from samedevice.live.origins import Origin, Station, Tracer
from samedevice.live.points import Point
from samedevice.live.sources import Sources
from samedevice.model.scene import Action, Holder, Relative, Step
from samedevice.program import bindings as b
from samedevice.program.frames import location_of, statement_of, text_of
from samedevice.program.values import is_module


class HolderReader:
    """Reads what the holder of an operand is, and what happened to it."""

    sources: Sources
    tracer: Tracer

    def _held(self, station: Station, origin: Origin, wanted: str, reader: ModuleReader) -> dict[str, Any]:
        """The operand is an attribute of an object."""
        owner = station.owner
        is_module_held = is_module(station.holder) or (
            owner is not None and self.sources.is_module_class(owner)
        )
        name = getattr(owner.node, "name", None) if owner is not None else None
        every = self.sources.stores(owner, station.name) if owner is not None else []
        registering = next((x for x in every if registers(x.node)), None)
        if registering is not None:
            station = replace(station, node=registering.node, file=registering.filename)
        registered = registering is not None or registers(station.node)
        kept = Step(
            Action.CACHED,
            "kept",
            location_of(statement_of(station.node) or station.node, station.file),
            expression=text_of(statement_of(station.node) or station.node, station.file),
            function_name=getattr(b.method_of(station.node), "name", "<module>"),
            class_name=name,
        )
        changes: dict[str, Any] = {
            "holder": Holder.BUFFER if registered else Holder.ATTRIBUTE,
            "holder_class": name,
            "holder_is_module": is_module_held,
            "attribute": station.name,
            "path": f"self.{station.name}",
            "host_path": "self",
            "owner": f"{name}.{station.name}" if name else None,
            "kept": kept,
        }
        if owner is not None:
            stores = [s for s in self.sources.stores(owner, station.name) if not b.is_empty(s.value)]
            changes["stored_in"] = tuple(
                dict.fromkeys(n for s in stores if (n := getattr(b.method_of(s.node), "name", None)))
            )
        if registered and isinstance(station.use, ast.Attribute) and station.point is not None:
            changes["module"] = reader.fact(station.use.value, station.point)
        elif is_module_held and isinstance(station.use, ast.Attribute):
            changes["host_moves"] = self._host_moves(station, wanted, reader)
        del origin
        return changes

    def _left_by(self, own: Station, node: ast.expr, point: Point, wanted: str) -> dict[str, Any]:
        """A class of the program that moves itself, and did not reach this tensor."""
        assert own.owner is not None
        path = text_of(node, point.file)
        for part in ast.walk(own.owner.node):
            if not (
                isinstance(part, ast.Call)
                and isinstance(part.func, ast.Attribute)
                and part.func.attr in ("to", "cuda")
            ):
                continue
            subject = part.func.value
            while isinstance(subject, ast.Subscript):
                subject = subject.value
            if isinstance(subject, ast.Attribute) and f".{subject.attr}" not in path:
                moved = Step(
                    Action.MOVED,
                    "Tensor.to",
                    location_of(part, own.owner.file),
                    wanted,
                    True,
                    text_of(part, own.owner.file),
                )
                base = re.split(r"[.\[]", path, maxsplit=1)[0]
                neighbour = Relative(f"{base}.{subject.attr}", wanted, Holder.CONTAINER, born=moved)
                return {"holder": Holder.CONTAINER, "path": path, "relatives": (neighbour,)}
        return {}

    def _alias(self, origin: Origin, wanted: str) -> Relative | None:
        """The tensor is registered in the same class under a name of its own; this is an older reference."""
        held = origin.via("attribute")
        if held is None or held.owner is None or held.source is None or not isinstance(origin.node, ast.AST):
            return None
        if registers(held.node):
            return None
        found = _registration_of(held, origin, self.sources)
        if found is None:
            return None
        name = getattr(held.owner.node, "name", "self")
        return Relative(f"self.{found}", wanted, Holder.BUFFER, f"{name}.{found}", None, same_data=True)

    def _host_moves(self, station: Station, wanted: str, reader: ModuleReader) -> tuple[Step, ...]:
        """Moves of the module that holds the attribute."""
        assert isinstance(station.use, ast.Attribute)
        point = station.point
        moves: list[Step] = []
        if point is not None:
            levels = reader.levels(station.use.value, point)
            for level in levels[1:] or levels:
                moves += [m.step(wanted) for m in reader.moves(level) if m.device != "cpu"]
        seen = module_device(station.holder, self.tracer) if is_module(station.holder) else None
        if not moves and seen == wanted:
            moves.append(Step(Action.MOVED, "Module.to", None, wanted))
        if not moves and station.owner is not None:
            for made in self.sources.constructions(station.owner):
                above = getattr(made.node, "parent", None)
                call = getattr(above, "parent", None)
                if (
                    isinstance(above, ast.Attribute)
                    and above.attr in ("to", "cuda")
                    and isinstance(call, ast.Call)
                ):
                    moves.append(
                        Step(
                            Action.MOVED,
                            "Module.to",
                            location_of(call, made.file),
                            wanted,
                            True,
                            text_of(call, made.file),
                        )
                    )
        return tuple(replace(m, order=n + 1) for n, m in enumerate(moves))


def registers(node: ast.AST) -> bool:
    statement = statement_of(node)
    return statement is not None and bool(
        re.search(r"\bregister_buffer\(|nn\.(?:Parameter|Buffer)\(", ast.unparse(statement))
    )


def _registration_of(held: Station, origin: Origin, sources: Sources) -> str | None:
    """The name under which what `held` keeps is registered as a buffer, too."""
    source = held.source
    if isinstance(source, (ast.List, ast.Tuple)):
        named = (_registration_of(replace(held, source=element), origin, sources) for element in source.elts)
        return next((name for name in named if name is not None), None)
    if isinstance(source, ast.Call) and getattr(source.func, "id", "") == "getattr" and len(source.args) > 1:
        return ast.unparse(source.args[1]).removeprefix("f").strip("'\"")
    if isinstance(source, ast.Attribute) and held.owner is not None:
        stores = sources.stores(held.owner, source.attr)
        return source.attr if any(registers(s.node) for s in stores) else None
    method = b.method_of(held.node)
    if isinstance(source, ast.Name) and method is not None:
        for call in ast.walk(method):
            if (
                isinstance(call, ast.Call)
                and getattr(call.func, "attr", "") == "register_buffer"
                and len(call.args) > 1
                and isinstance(call.args[1], ast.Name)
                and call.args[1].id == source.id
            ):
                return ast.unparse(call.args[0]).strip("'\"")
    del origin
    return None
