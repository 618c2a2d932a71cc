"""A `Scene` from a crash: live frames, or a traceback's text with the sources; nothing was recorded."""

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from samedevice.live.births import birth_of
from samedevice.live.candidates import Candidate, candidates, is_module_made, module_device
from samedevice.live.describing import Describer, DeviceOf
from samedevice.live.devices import decide
from samedevice.live.holders import registers
from samedevice.live.module_facts import ModuleReader
from samedevice.live.origins import MODULE, MODULE_STATE, Origin, Tracer, Where
from samedevice.live.points import Point, user_points
from samedevice.live.program_facts import program_facts, tied
from samedevice.live.roles import STATE_ARGUMENTS, Blame, blame_of
from samedevice.live.sources import Sources
from samedevice.live.special import special_scene
from samedevice.model.scene import (
    Action,
    Holder,
    Kind,
    Operand,
    Scene,
)
from samedevice.program.files import PACKAGE
from samedevice.program.frames import late_move, operator_of, text_of
from samedevice.program.values import MISSING, is_module, is_tensor
from samedevice.torch_facts.messages import Match


def no_device(value: Any) -> str | None:
    """For a traceback's text: no value is alive."""
    del value
    return None


class CrashScene(Describer):
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
        if self._inside_package(point) and not self._reaches_inside(parts, point):
            # What failed is a package's own line; of the user's call into it only what is seen counts.
            parts = [
                p
                for p in parts
                if p.device == self.stray
                and (not p.is_state or module_device(p.value, self.tracer) == self.stray)
            ]
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
        facts = program_facts(self, point)
        if kind is Kind.INDEX and isinstance(point.node, ast.Subscript):
            facts.update(late_move(point.node, point.file))
        return facts

    def _operator(self, point: Point) -> str:
        named = operator_of(point.node, point.file)
        return self.match.family.name if named is None else named

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

    def _inside_package(self, point: Point) -> bool:
        """The failing line is in an installed package (not torch) that the user's code called."""
        after = self.points[list(self.points).index(point) + 1 :]
        return any(
            p.kind == PACKAGE or ("-packages/" in p.file and "-packages/torch/" not in p.file) for p in after
        )

    def _reaches_inside(self, parts: Sequence[Candidate], point: Point) -> bool:
        """The user calls a package's module, and the message speaks of an argument: it may be the user's."""
        if self.blame.role != "argument" or not isinstance(point.node, ast.Call):
            return False
        return any(p.is_state for p in parts)

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
            registered = any(registers(s.node) for s in every)
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


def _is_scalar(value: Any, parts: Sequence[Candidate]) -> bool:
    """A CPU tensor without dimensions among others that have some: it may take part."""
    return (
        is_tensor(value)
        and value.dim() == 0
        and any(is_tensor(p.value) and p.value.dim() > 0 and p.device == "cpu" for p in parts)
    )


#: catalogue family -> family of the device rules, where rules ask for it
_FAMILIES = {"numpy-conversion": "numpy", "lengths-on-host": "pack", "split-indices-on-host": "tensor-split"}
