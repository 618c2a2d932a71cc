"""The operand out of place with all that is known of it, and what is known of its partners."""

import ast
import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from samedevice.live.candidates import Candidate, is_module_call, is_module_made
from samedevice.live.devices import decide
from samedevice.live.entries import EntryReader
from samedevice.live.holders import HolderReader
from samedevice.live.module_facts import ModuleReader
from samedevice.live.origins import MODULE, MODULE_STATE, Origin, Tracer
from samedevice.live.points import Point
from samedevice.live.resolving import Where
from samedevice.model.scene import Action, Decision, Holder, ModuleFact, Operand, Step
from samedevice.program import bindings as b
from samedevice.program.frames import location_of, text_of
from samedevice.program.values import MISSING

DeviceOf = Callable[[Any], str | None]


class Describer(HolderReader, EntryReader):
    """Turns candidates and their origins into operands.

    Attributes:
        stray: device of the operand out of place.
        device_of: device of a live tensor.
    """

    stray: str
    device_of: DeviceOf

    def wanted(self, parts: Sequence[Candidate]) -> str:
        """Where the stray belongs."""
        raise NotImplementedError

    def leaf(self) -> Any:
        """The live layer of torch in which the call failed, MISSING when there is none."""
        return MISSING

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
            "discarded": self.discarded(node, point, origin, wanted),
        }
        if attribute is not None:
            changes |= self._held(attribute, origin, wanted, reader)
        entry = self.entry(origin, wanted)
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
