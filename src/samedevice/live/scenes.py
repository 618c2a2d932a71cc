"""A `Scene` from a crash: live frames, or a traceback's text with the sources; nothing was recorded."""

import ast
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from samedevice.live.births import birth_of
from samedevice.live.candidates import Candidate, candidates, is_module_call, is_module_made
from samedevice.live.devices import decide
from samedevice.live.module_facts import ModuleReader
from samedevice.live.origins import MODULE, MODULE_STATE, Origin, Station, Tracer, Where
from samedevice.live.points import Point, user_points
from samedevice.live.program_facts import program_facts, tied
from samedevice.live.roles import STATE_ARGUMENTS, Blame, blame_of
from samedevice.live.sources import Sources
from samedevice.live.special import special_scene
from samedevice.model.scene import (
    Action,
    Decision,
    Entry,
    Holder,
    Kind,
    ModuleFact,
    Operand,
    Relative,
    Scene,
    Step,
)
from samedevice.program import bindings as b
from samedevice.program.discards import unused_moves_of
from samedevice.program.frames import location_of, scope_of, statement_of, text_of
from samedevice.program.values import MISSING, is_module, is_tensor
from samedevice.torch_facts.messages import Match

DeviceOf = Callable[[Any], str | None]


def no_device(value: Any) -> str | None:
    """For a traceback's text: no value is alive."""
    del value
    return None


class CrashScene:
    """Builds the scene of one crash."""

    def __init__(
        self,
        points: Sequence[Point],
        match: Match,
        exception: str,
        message: str,
        roots: Sequence[str] = (),
        device_of: DeviceOf = no_device,
        wrapper: str | None = None,
    ) -> None:
        self.wrapper = wrapper
        self.points = points
        self.users = user_points(points)
        self.match = match
        self.exception = exception
        self.message = message
        self.device_of = device_of
        self.sources = Sources.of((p.file for p in self.users), roots)
        self.blame = blame_of(match)
        self.named_side: int | None = None
        self.stray = self.blame.stray or "cpu"
        self.tracer = Tracer(self.sources, self.stray, device_of)

    def build(self) -> Scene | None:
        """The scene, None when no user code is at hand."""
        if not self.users:
            return None
        point = self.users[-1]
        special = special_scene(self, point)
        if special is not None:
            return special
        kind = self.match.family.kind or Kind.OPERANDS
        parts = candidates(point, self.tracer, self.leaf())
        if self.blame.stray is None:
            parts = self._with_sides(parts)
            self._choose_gpu(parts)
        stray, origin = self._choose(parts, point)
        wanted = self.wanted(parts)
        operands = tuple(self._plain(part, point, wanted) for part in parts)
        if stray is not None:
            at = parts.index(stray)
            full = self._full(stray, origin, operands[at], point, wanted)
            operands = (*operands[:at], full, *operands[at + 1 :])
            operands = self._partners(parts, operands, at, point, wanted)
        number = None if stray is None else parts.index(stray)
        if number is None and not operands:
            # A call without operands of its own (a traced graph): something of it is out of place.
            operands, number = (Operand("", self.stray),), 0
        operands = tied(self, parts, operands, point)
        scene = self.frame_of(kind, point, operands, number, wanted)
        return replace(scene, extra={**scene.extra, **self._extra(kind, point)})

    # -- surroundings ----------------------------------------------------------------------------------

    def frame_of(
        self,
        kind: Kind,
        point: Point,
        operands: tuple[Operand, ...] = (),
        stray: int | None = None,
        wanted: str | None = None,
    ) -> Scene:
        """A scene at a point."""
        return Scene(
            kind=kind,
            operator=self._operator(point),
            exception=self.exception,
            message=self.message,
            raised=point.location,
            operands=operands,
            stray=stray,
            wanted=wanted,
            frames=tuple(p.as_frame for p in self.points if p.statement is not None),
            extra=self._basics(point),
        )

    def _basics(self, point: Point) -> dict[str, object]:
        extra: dict[str, object] = {"family": _FAMILIES.get(self.match.family.name, self.match.family.name)}
        if self.wrapper is not None and self.wrapper.startswith("replica"):
            extra["replica"] = True
        if isinstance(point.node, ast.expr):
            extra["call"] = text_of(point.node, point.file)
        if point.statement is not None and not hasattr(point.statement, "body"):
            extra["statement"] = text_of(point.statement, point.file)
        return extra

    def _extra(self, kind: Kind, point: Point) -> dict[str, object]:
        """Facts of single rules: a traced graph, a device map, several choices of device, a late move."""
        return {**program_facts(self, point), **self._moved_after(kind, point)}

    def _moved_after(self, kind: Kind, point: Point) -> dict[str, object]:
        """`table[index].to(device)`: the move comes after the indexing that needs it."""
        node = point.node
        if kind is not Kind.INDEX or not isinstance(node, ast.Subscript):
            return {}
        above = getattr(node, "parent", None)
        while isinstance(above, (ast.Attribute, ast.Call)):
            if (
                isinstance(above, ast.Call)
                and isinstance(above.func, ast.Attribute)
                and above.func.attr in ("to", "cuda")
            ):
                given = ", ".join(text_of(a, point.file) for a in above.args)
                return {
                    "moved_after": text_of(above, point.file),
                    "moved_before": f"{text_of(node.value, point.file)}.{above.func.attr}({given})[{text_of(node.slice, point.file)}]",
                }
            above = getattr(above, "parent", None)
        return {}

    def _operator(self, point: Point) -> str:
        node = point.node
        if isinstance(node, ast.Call):
            return text_of(node.func, point.file)
        if isinstance(node, ast.BinOp):
            return _SIGNS.get(type(node.op), "operator")
        if isinstance(node, ast.AugAssign):
            return _SIGNS.get(type(node.op), "operator") + "="
        if isinstance(node, ast.Subscript):
            return "indexing"
        if isinstance(node, ast.Compare):
            return "comparison"
        return self.match.family.name

    def leaf(self) -> Any:
        """The live layer of torch in which the call failed, MISSING when there is none."""
        last = max((i for i, p in enumerate(self.points) if p in self.users), default=-1)
        for point in reversed(self.points[last + 1 :]):
            if point.frame is not None and point.function == "forward":
                subject = point.frame.f_locals.get("self")
                if is_module(subject):
                    return subject
        return MISSING

    def wanted(self, parts: Sequence[Candidate]) -> str:
        """Where the stray belongs."""
        if self.stray not in ("cpu", "meta") and self.blame.wanted == "cpu":
            return "cpu"
        seen = [p.device for p in parts if p.device is not None and p.device != self.stray]
        if seen and (
            self.blame.wanted is None or self.blame.wanted in ("cuda", "gpu") or self.blame.wanted not in seen
        ):
            return seen[0]
        wanted = self.blame.wanted or "cuda:0"
        return "cuda:0" if wanted in ("cuda", "gpu") else wanted

    # -- who is out of place -----------------------------------------------------------------------------

    def _with_sides(self, parts: list[Candidate]) -> list[Candidate]:
        """With two GPUs an elementwise operation names its first operand's device first."""
        fields = self.match.fields
        if self.match.family.name != "elementwise-devices" or len(parts) != 2 or "d2" not in fields:
            return parts
        devices = (fields["d1"], fields["d2"])
        if any(p.device not in (None, d) for p, d in zip(parts, devices, strict=True)):
            return parts
        return [replace(p, device=p.device or d) for p, d in zip(parts, devices, strict=True)]

    def _choose_gpu(self, parts: Sequence[Candidate]) -> None:
        """Of operands on two GPUs: what a file, a loader or a call placed follows what the model computed."""
        fields = self.match.fields
        devices = [d for d in (fields.get("d1"), fields.get("d2")) if d]
        named = fields.get("arg")
        state = next((p.device for p in parts if p.is_state and p.device), None)
        if named is not None and len(devices) == 2 and named not in STATE_ARGUMENTS:
            self.stray, home = devices[0], devices[1]
            if named != "tensors":
                # The message names an argument by the operator's word; by its place it is the later one.
                self.named_side = 1 if len(parts) > 1 and not any(p.is_state for p in parts) else 0
        else:
            home = state or (devices[0] if devices else "cuda:0")
            others = [d for d in devices if d != home]
            self.stray = others[0] if others else home
            for part in parts:
                if (
                    part.device is not None
                    and part.device == home
                    and not part.is_state
                    and self._placed(part)
                ):
                    self.stray, home = home, self.stray
                    break
        self.blame = Blame(self.stray, home, None)
        self.tracer = Tracer(self.sources, self.stray, self.device_of)

    def _placed(self, part: Candidate) -> bool:
        point = self.users[-1]
        tracer = Tracer(self.sources, part.device or self.stray, self.device_of)
        found = tracer.trace(part.node, Where(point.file, point.line, point))
        return any(o.action is Action.LOADED for o in found[:2])

    def _choose(self, parts: Sequence[Candidate], point: Point) -> tuple[Candidate | None, Origin | None]:
        seen = [p for p in parts if p.device == self.stray and not _is_scalar(p.value, parts)]
        unknown = [p for p in parts if p.device is None]
        role = self.blame.role
        if self.named_side is not None and self.named_side < len(parts):
            order = [parts[self.named_side]]
        elif seen:
            order = seen
        elif role == "first" and parts:
            order = [p for p in unknown if not p.is_state] or unknown
        elif role == "second" and len(parts) > 1:
            order = [parts[1], *(p for p in unknown if not p.is_state and p is not parts[1])]
        elif role == "state":
            order = [p for p in unknown if p.is_state] or unknown
        elif role == "argument":
            order = [p for p in unknown if not p.is_state] or unknown
        else:
            order = unknown
        where = Where(point.file, point.line, point)
        if role == "argument" and not any(p.is_state for p in parts):
            # The operator's later arguments are the ones that messages name.
            order = [*order[1:], *order[:1]]
        ranked: list[tuple[int, int, Candidate, Origin | None]] = []
        for number, part in enumerate(order):
            if part.is_state:
                ranked.append((1, number, part, None))
                continue
            for origin in self.tracer.trace(part.node, where)[:6]:
                ranked.append(
                    (self.tracer.score(origin) + self._doubt(origin, part, point), number, part, origin)
                )
        if ranked:
            best = min(ranked, key=lambda r: r[:2])
            return best[2], self._recorded(best[2], [r[3] for r in ranked if r[2] is best[2]], best[3])
        return (order[0], None) if len(order) == 1 else (None, None)

    def _recorded(self, part: Candidate, read: Sequence[Origin | None], best: Origin | None) -> Origin | None:
        """The origin that a recording shows; of those that were read the one that agrees with it."""
        birth = birth_of(part.value) if is_tensor(part.value) else None
        node = birth.spot.node if birth is not None else None
        if birth is None or not isinstance(node, ast.expr):
            return best
        agreed = next((o for o in read if o is not None and o.node is node), None)
        if agreed is not None:
            return replace(agreed, recorded=True)
        if birth.function in ("to", "cuda", "cpu"):
            action, explicit, device = Action.MOVED, True, None
        else:
            action, explicit, device = Action.CREATED, birth.explicit, None if birth.explicit else "cpu"
        stations = best.stations if best is not None else ()
        where = Where(birth.spot.filename, birth.spot.line)
        return Origin(
            action,
            node,
            birth.spot.filename,
            f"torch.{birth.function}",
            explicit,
            device,
            None,
            stations,
            where,
            recorded=True,
        )

    def _doubt(self, origin: Origin, part: Candidate, point: Point) -> int:
        """How much speaks against an origin that was only read: the sources move it, or put it elsewhere."""
        if part.device is not None or self.stray != "cpu":
            return 0
        if origin.chosen is not None and origin.where is not None:
            decision = decide(origin.chosen, origin.where, self.tracer)
            kind = (self.blame.wanted or "cuda").partition(":")[0]
            if decision is not None and decision.how != "omitted" and kind in decision.expression:
                return 10
        held = origin.via("attribute")
        if held is not None and held.owner is not None and self.sources.is_module_class(held.owner):
            every = self.sources.stores(held.owner, held.name)
            registered = any(_registers(s.node) for s in every)
            derived = held.source is not None and not is_module_made(
                held.source, Where(held.file, 1 << 30), self.tracer
            )
            if not registered and derived:
                return 0
            if registered and self._host_moves(
                held, self.wanted(()), ModuleReader(self.tracer, self.wanted(()))
            ):
                return 10
        if origin.function in (MODULE, MODULE_STATE):
            fact = self._parameter(
                origin, self._plain(part, point, ""), ModuleReader(self.tracer, self.wanted(())), point
            ).module
            if fact is None or (
                fact.kept is None
                and fact.in_forward is None
                and fact.joined is None
                and fact.copied is None
                and not fact.never_moved
            ):
                return 10
        return 0

    # -- operands ----------------------------------------------------------------------------------------

    def _plain(self, part: Candidate, point: Point, wanted: str) -> Operand:
        tensor = part.value if is_tensor(part.value) else None
        text = text_of(part.node, point.file)
        return Operand(
            name="",
            device=part.device or wanted,
            expression=f"{text}.weight" if part.is_state else text,
            shape=tuple(tensor.shape) if tensor is not None else None,
            dtype=str(tensor.dtype).removeprefix("torch.") if tensor is not None else None,
            requires_grad=bool(tensor is not None and tensor.requires_grad),
            zero_dim=tensor is not None and tensor.dim() == 0,
            holder=Holder.TEMPORARY if not isinstance(part.node, ast.Name) else Holder.LOCAL,
        )

    def _full(
        self, part: Candidate, origin: Origin | None, plain: Operand, point: Point, wanted: str
    ) -> Operand:
        """The stray with all that is known of it."""
        operand = replace(plain, device=self.stray)
        reader = ModuleReader(self.tracer, wanted)
        if part.is_state:
            return self._of_module(operand, reader.fact(part.node, point, self.leaf()))
        if origin is None or (
            self.stray.startswith("cuda")
            and wanted.startswith("cuda")
            and origin.action is not Action.LOADED
            and origin.via("attribute") is None
            and self._is_computed(part, Where(point.file, point.line, point))
        ):
            step = Step(Action.DERIVED, "call", location_of(part.node, point.file), self.stray)
            return replace(operand, provenance=(step,))
        if origin.function in (MODULE, MODULE_STATE):
            held = origin.via("attribute")
            if (
                held is not None
                and held.source is not None
                and not is_module_made(held.source, Where(held.file, 1 << 30), self.tracer)
            ):
                # What was computed from the weights and kept is data of its own.
                until = tuple(itertools.takewhile(lambda s: s is not held, origin.stations))
                derived = Origin(
                    Action.DERIVED,
                    held.source,
                    held.file,
                    "kept",
                    None,
                    None,
                    None,
                    (*until, held),
                    origin.where,
                )
                return self.describe(derived, operand, part.node, point, wanted, reader)
            return self._parameter(origin, operand, reader, point)
        return self.describe(origin, operand, part.node, point, wanted, reader)

    def _partners(
        self, parts: Sequence[Candidate], operands: tuple[Operand, ...], stray: int, point: Point, wanted: str
    ) -> tuple[Operand, ...]:
        """The operands beside the stray: where attributes among them were put, and what was computed."""
        where = Where(point.file, point.line, point)
        found = list(operands)
        for number, part in enumerate(parts):
            if number == stray or part.is_state:
                continue
            tracer = Tracer(self.sources, part.device or wanted, self.device_of)
            origins = [o for o in tracer.trace(part.node, where) if o.via("attribute") is not None]
            moved = next((o for o in origins if o.action is Action.MOVED), None)
            if moved is not None:
                keep, self.tracer = self.tracer, tracer
                stray_device, self.stray = self.stray, part.device or wanted
                found[number] = self.describe(
                    moved, found[number], part.node, point, wanted, ModuleReader(tracer, wanted)
                )
                self.tracer, self.stray = keep, stray_device
            elif self._is_computed(part, where):
                step = Step(Action.DERIVED, "call", location_of(part.node, point.file), part.device or wanted)
                found[number] = replace(found[number], provenance=(step,))
        return tuple(found)

    def _is_computed(self, part: Candidate, where: Where) -> bool:
        """The operand is what a module of the program gives out."""
        node = part.node
        while isinstance(node, (ast.Subscript, ast.Attribute)):
            node = node.value
        if isinstance(node, ast.Name):
            value = next((v for v, _ in self.tracer.definitions(node, where)), None)
            if value is None or isinstance(value, ast.Name):
                return True
            node = value
        return any(
            isinstance(n, ast.Call) and is_module_call(n, where, self.tracer) for n in ast.walk(node)
        ) or isinstance(node, ast.BinOp)

    def _parameter(self, origin: Origin, operand: Operand, reader: ModuleReader, point: Point) -> Operand:
        """A weight that was reached as data: `for p in model.parameters()`."""
        node = origin.node
        where = origin.where
        at = where.point if where is not None and where.point is not None else point
        if origin.function == MODULE_STATE and isinstance(node, ast.expr):
            return self._of_module(operand, reader.fact(node, at))
        kept = next((s for s in origin.stations if s.how in ("attribute", "name", "global", "unpack")), None)
        use = kept.use if kept is not None else None
        if isinstance(use, ast.expr) and kept is not None and kept.point is not None:
            return self._of_module(operand, reader.fact(use, kept.point))
        return operand

    def _of_module(self, operand: Operand, fact: ModuleFact | None) -> Operand:
        """A parameter or buffer of a module of which something is known."""
        if fact is not None:
            fact = replace(fact, decision=self._plausible(fact.decision, self.wanted(())))
        placed = fact.moves[-1] if fact is not None and fact.moves and fact.decision is not None else None
        return replace(
            operand,
            holder=Holder.PARAMETER,
            holder_is_module=True,
            module=fact,
            placed=placed,
            decision=None if fact is None else fact.decision,
        )

    def describe(
        self,
        origin: Origin,
        operand: Operand,
        node: ast.expr,
        point: Point,
        wanted: str,
        reader: ModuleReader,
    ) -> Operand:
        """An operand that goes back to `origin`."""
        born = self.step(origin)
        attribute = origin.via("attribute")
        changes: dict[str, Any] = {
            "provenance": (born,),
            "discarded": self._discarded(node, point, origin, wanted),
        }
        if attribute is not None:
            changes |= self._held(attribute, origin, wanted, reader)
        entry = self._entry(origin, wanted)
        if entry is not None and attribute is None:
            changes["entry"] = entry
            changes["path"] = entry.name
        own = origin.via("own-move")
        if own is not None:
            changes |= self._left_by(own, node, point, wanted)
        alias = self._alias(origin, wanted)
        if alias is not None:
            changes["relatives"] = (*changes.get("relatives", ()), alias)
        if origin.explicit or origin.action is Action.MOVED:
            changes["placed"] = born
            if origin.chosen is not None and origin.where is not None:
                changes["decision"] = self._plausible(
                    decide(origin.chosen, origin.where, self.tracer), wanted
                )
            elif origin.device == "cpu":
                changes["decision"] = None
        if attribute is None and isinstance(node, ast.Name):
            changes["holder"] = Holder.LOCAL
        return replace(operand, **changes)

    def _plausible(self, decision: Decision | None, wanted: str) -> Decision | None:
        """None for a decision that says the opposite of what was seen: `"cuda"` put nothing on the CPU."""
        if decision is None or decision.how == "omitted":
            return decision
        kind = wanted.partition(":")[0]
        return None if self.stray == "cpu" and kind in decision.expression else decision

    def step(self, origin: Origin) -> Step:
        """The origin as the first step of a provenance."""
        method = b.method_of(origin.node)
        owner = self.sources.class_around(origin.node, origin.file)
        return Step(
            action=origin.action,
            function=origin.function,
            location=location_of(origin.node, origin.file),
            device=self.stray,
            explicit_device=origin.explicit,
            expression=text_of(origin.node, origin.file) if isinstance(origin.node, ast.expr) else None,
            function_name=method.name if method is not None else "<module>",
            class_name=getattr(owner.node, "name", None) if owner is not None else None,
        )

    def _held(self, station: Station, origin: Origin, wanted: str, reader: ModuleReader) -> dict[str, Any]:
        """The operand is an attribute of an object."""
        owner = station.owner
        is_module_held = is_module(station.holder) or (
            owner is not None and self.sources.is_module_class(owner)
        )
        name = getattr(owner.node, "name", None) if owner is not None else None
        every = self.sources.stores(owner, station.name) if owner is not None else []
        registering = next((x for x in every if _registers(x.node)), None)
        if registering is not None:
            station = replace(station, node=registering.node, file=registering.filename)
        registered = registering is not None or _registers(station.node)
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
        if _registers(held.node):
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
        if not moves and is_module(station.holder):
            from samedevice.live.candidates import module_device

            if module_device(station.holder, self.tracer) == wanted:
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

    def _discarded(self, node: ast.expr, point: Point, origin: Origin, wanted: str) -> Step | None:
        """`x.to(device)` above, whose result nobody took."""
        places: list[tuple[str, ast.AST, str]] = []
        if isinstance(node, ast.Name) and point.statement is not None:
            places.append((node.id, point.statement, point.file))
        for station in origin.stations:
            if station.how == "argument" and isinstance(station.node, ast.Name):
                places.append((station.node.id, station.node, station.file))
        for name, at, file in places:
            scope = scope_of(at)
            line = getattr(at, "lineno", 0)
            if scope is None:
                continue
            for call in unused_moves_of(scope, name, line):
                if isinstance(call.func, ast.Attribute) and call.func.attr != "cpu":
                    return Step(
                        Action.DISCARDED_MOVE,
                        "Tensor.to",
                        location_of(call, file),
                        wanted,
                        True,
                        text_of(call, file),
                    )
        return None

    # -- how data came into the program's functions ------------------------------------------------------

    def _entry(self, origin: Origin, wanted: str) -> Entry | None:
        """The outermost name that the data has, seen from the failing call."""
        binder = next(
            (s for s in reversed(origin.stations) if s.how in ("for", "unpack", "name") and s.name), None
        )
        if binder is None or binder.use is None:
            return None
        loader = origin.function == "DataLoader"
        loop = next((s for s in reversed(origin.stations) if s.how == "for"), None)
        how = binder.how
        if how == "name":
            inner = binder.source
            how = (
                "item"
                if isinstance(inner, (ast.Subscript, ast.Attribute))
                else "call"
                if isinstance(inner, ast.Call)
                else "assign"
            )
        if loop is not None and binder is not loop and how == "assign":
            how = "unpack"
        named = (
            binder
            if binder is not loop or len([s for s in origin.stations if s.how in ("name", "unpack")]) == 0
            else loop
        )
        use_statement = statement_of(named.use) if named.use is not None else None
        if named.use is None or use_statement is None:
            return None
        used_node: ast.AST = named.use
        call = getattr(used_node, "parent", None)
        used = Step(
            Action.RECEIVED,
            "used",
            location_of(use_statement, named.file),
            expression=_short(use_statement, named.file),
        )
        del call
        bound = Step(
            Action.ASSIGNED,
            how,
            location_of(statement_of(named.node) or named.node, named.file),
            expression=_short(statement_of(named.node) or named.node, named.file),
        )
        source = text_of(named.source, named.file) if named.source is not None else None
        shown = text_of(named.use, named.file) if isinstance(named.use, ast.expr) else named.name
        return Entry(
            shown,
            used,
            bound,
            how,
            source,
            loader,
            self._moved_beside(named, origin),
            getattr(b.method_of(named.node), "name", None),
        )

    def _moved_beside(self, station: Station, origin: Origin) -> tuple[str, ...]:
        """What came by the same loop or unpacking, or out of the same batch, and was moved in the function."""
        together: set[str] = set()
        targets = [getattr(station.node, "target", None), *getattr(station.node, "targets", [])]
        for target in targets:
            together |= (
                {n.id for n in ast.walk(target) if isinstance(n, ast.Name)} if target is not None else set()
            )
        together.discard(station.name)
        for other in origin.stations:
            if (
                other.how == "for"
                and other is not station
                and getattr(other.node, "target", None) is not None
            ):
                target = getattr(other.node, "target", None)
                together |= (
                    {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
                    if target is not None
                    else set()
                )
        scope = scope_of(station.node)
        moved = []
        for node in ast.walk(scope) if scope is not None else ():
            if isinstance(node, ast.Call):
                subject = (
                    node.func.value
                    if isinstance(node.func, ast.Attribute) and node.func.attr in ("to", "cuda")
                    else None
                )
                if subject is None and any(k.arg == "device" for k in node.keywords) and node.args:
                    subject = node.args[0]
                if subject is None and self._moves_its_argument(node, station.file):
                    subject = node.args[0]
                root = subject
                while isinstance(root, (ast.Subscript, ast.Attribute)):
                    root = root.value
                if (
                    isinstance(root, ast.Name)
                    and root.id in together
                    and not isinstance(statement_of(node), ast.Expr)
                ):
                    moved.append(text_of(subject, station.file) if subject is not None else root.id)
        return tuple(dict.fromkeys(moved))

    def _moves_its_argument(self, node: ast.Call, file: str) -> bool:
        """A helper of the program like `as_tensor(array, policy)`, which names a device for its argument."""
        if not node.args:
            return False
        found = self.sources.definition(node.func, file)
        if found is None or not isinstance(found.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return False
        return any(
            isinstance(n, ast.Call)
            and (
                any(k.arg == "device" for k in n.keywords)
                or (isinstance(n.func, ast.Attribute) and n.func.attr in ("to", "cuda"))
            )
            for n in ast.walk(found.node)
        )


def _is_scalar(value: Any, parts: Sequence[Candidate]) -> bool:
    """A CPU tensor without dimensions among others that have some: it may take part."""
    return (
        is_tensor(value)
        and value.dim() == 0
        and any(is_tensor(p.value) and p.value.dim() > 0 and p.device == "cpu" for p in parts)
    )


def _registers(node: ast.AST) -> bool:
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
        return source.attr if any(_registers(s.node) for s in stores) else None
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


def _short(statement: ast.AST, file: str) -> str:
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        return f"for {text_of(statement.target, file)} in {text_of(statement.iter, file)}"
    if hasattr(statement, "body"):
        return ast.unparse(statement).partition("\n")[0]
    return text_of(statement, file)


#: catalogue family -> family of the device rules, where rules ask for it
_FAMILIES = {"numpy-conversion": "numpy", "lengths-on-host": "pack", "split-indices-on-host": "tensor-split"}

_SIGNS: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.MatMult: "@", ast.Mod: "%",
    ast.Pow: "**", ast.FloorDiv: "//", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
}  # fmt: skip
