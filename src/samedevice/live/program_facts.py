"""Facts about the whole program that single rules ask for."""

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from samedevice.live.candidates import Candidate
from samedevice.live.module_facts import ModuleReader
from samedevice.live.points import Point
from samedevice.live.resolving import Where
from samedevice.model.scene import Action, Decision, Holder, Operand, Step
from samedevice.program import bindings as b
from samedevice.program.frames import location_of, parent_of, statement_of, text_of, tree_of

if TYPE_CHECKING:
    from samedevice.live.scenes import CrashScene


def program_facts(crash: "CrashScene", point: Point) -> dict[str, object]:
    """What is known of tracing, device maps and module-level devices."""
    facts: dict[str, object] = {}
    facts |= _traced(crash, point)
    table = _device_map(crash)
    if table is not None and crash.stray.startswith("cuda"):
        facts["device_map"] = table
    facts["device_names"] = _device_names(crash)
    return facts


def _traced(crash: "CrashScene", point: Point) -> dict[str, object]:
    """The call runs a TorchScript graph; where that was traced."""
    if not isinstance(point.node, ast.Call):
        return {}
    where = Where(point.file, point.line, point)
    for value, inner in crash.tracer.definitions(point.node.func, where):
        name = crash.sources.qualified(value.func, inner.file) if isinstance(value, ast.Call) else None
        if name == "torch.jit.trace":
            statement = statement_of(value) or value
            step = Step(
                Action.CREATED,
                name,
                location_of(statement, inner.file),
                "cpu",
                None,
                text_of(statement, inner.file),
            )
            return {"traced": True, "traced_at": step}
    return {}


def _device_map(crash: "CrashScene") -> Decision | None:
    """A table of the program that puts parts of a model on several GPUs."""
    for file in crash.sources.files:
        tree = tree_of(file)
        for node in ast.walk(tree) if tree is not None else ():
            if not isinstance(node, ast.Dict):
                continue
            devices = {
                v.value
                for v in node.values
                if isinstance(v, ast.Constant)
                and isinstance(v.value, (str, int))
                and not isinstance(v.value, bool)
            }
            gpus = {d for d in devices if isinstance(d, int) or d.startswith("cuda")}
            if len(gpus) > 1 and len(gpus) == len(devices):
                statement = statement_of(node) or node
                return Decision("table", location_of(statement, file), text_of(node, file))
    return None


def _device_names(crash: "CrashScene") -> dict[str, str]:
    """Module-level variables that hold a device: "model.device" -> "cuda", as far as the text tells."""
    found: dict[str, str] = {}
    wanted = (crash.blame.wanted or "cuda").partition(":")[0]
    for file in crash.sources.files:
        tree = tree_of(file)
        if tree is None:
            continue
        for node in ast.walk(tree):
            if not isinstance(node, ast.Assign) or b.method_of(node) is not None or len(node.targets) != 1:
                continue
            target, value = node.targets[0], node.value
            if (
                not isinstance(target, ast.Name)
                or not isinstance(value, ast.Call)
                or not isinstance(parent_of(node), (ast.Module, ast.If))
            ):
                continue
            called = (
                value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", "")
            )
            if called != "device" or not value.args:
                continue
            kinds = [
                n.value.partition(":")[0]
                for n in ast.walk(value)
                if isinstance(n, ast.Constant) and isinstance(n.value, str)
            ]
            name = f"{file.rpartition('/')[2].removesuffix('.py')}.{target.id}"
            if wanted in kinds or (found.get(name) != wanted and kinds):
                found[name] = wanted if wanted in kinds else kinds[-1]
    return found


def tied(
    crash: "CrashScene", parts: Sequence[Candidate], operands: tuple[Operand, ...], point: Point
) -> tuple[Operand, ...]:
    """`a.weight = b.weight`: one parameter of two modules that were moved to two GPUs."""
    if not crash.stray.startswith("cuda"):
        return operands
    found = list(operands)
    for number, part in enumerate(parts):
        if not part.is_state or number >= len(found):
            continue
        if isinstance(part.node, ast.Name):
            found[number] = _tied_by_name(crash, part, found[number], point)
            continue
        if not isinstance(part.node, ast.Attribute):
            continue
        owner = crash.tracer.owner_of(part.node.value, Where(point.file, point.line, point))
        if owner is None:
            continue
        names = _tied_to(owner.node, part.node.attr)
        if not names:
            continue
        reader = ModuleReader(crash.tracer, "")
        moves = []
        for kind in crash.sources.lineage(owner):
            moves += [m for name in (part.node.attr, *names) for m in reader.attribute_moves(kind, name)]
        moves.sort(key=lambda m: m.node.lineno)
        device = part.device or found[number].device
        other = next(
            (d for d in (crash.stray, crash.blame.wanted or "") if d.startswith("cuda") and d != device), None
        )
        if len(moves) < 2 or other is None:
            continue
        steps = (*(m.step(other) for m in moves[:-1]), moves[-1].step(device))
        found[number] = replace(
            found[number],
            device=device,
            holder=Holder.PARAMETER,
            provenance=steps,
            shared=tuple(f"self.{name}.weight" for name in (part.node.attr, *names)),
        )
    return tuple(found)


def _tied_by_name(crash: "CrashScene", part: Candidate, operand: Operand, point: Point) -> Operand:
    """`head.weight = embed.weight` of two variables, both moved."""
    assert isinstance(part.node, ast.Name)
    scope = point.scope
    if scope is None:
        return operand
    partners = [
        side
        for node in ast.walk(scope)
        if isinstance(node, ast.Assign) and len(node.targets) == 1
        for sides in [(_variable_of(node.targets[0]), _variable_of(node.value))]
        if None not in sides and part.node.id in sides
        for side in sides
        if side != part.node.id and side is not None
    ]
    moves = [
        node
        for node in ast.walk(scope)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("to", "cuda")
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in (part.node.id, *partners)
    ]
    device = part.device or operand.device
    other = next(
        (d for d in (crash.stray, crash.blame.wanted or "") if d.startswith("cuda") and d != device), None
    )
    if not partners or len(moves) < 2 or other is None:
        return operand
    moves.sort(key=lambda n: n.lineno)
    steps = [
        Step(
            Action.MOVED,
            "Module.to",
            location_of(n, point.file),
            device if n is moves[-1] else other,
            True,
            text_of(n, point.file),
        )
        for n in moves
    ]
    shared = tuple(f"{name}.weight" for name in (part.node.id, *partners))
    return replace(operand, device=device, holder=Holder.PARAMETER, provenance=tuple(steps), shared=shared)


def _variable_of(node: ast.expr) -> str | None:
    """The variable in `<name>.weight`."""
    if isinstance(node, ast.Attribute) and node.attr == "weight" and isinstance(node.value, ast.Name):
        return node.value.id
    return None


def _tied_to(definition: ast.AST, name: str) -> list[str]:
    """Submodules that share their weight with `self.<name>`."""
    found = []
    for node in ast.walk(definition):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            sides = [_weight_of(node.targets[0]), _weight_of(node.value)]
            if name in sides and None not in sides and sides[0] != sides[1]:
                found += [s for s in sides if s != name and s is not None]
    return found


def _weight_of(node: ast.expr) -> str | None:
    """The submodule's name in `self.<name>.weight`."""
    if isinstance(node, ast.Attribute) and node.attr == "weight" and isinstance(node.value, ast.Attribute):
        return node.value.attr
    return None
