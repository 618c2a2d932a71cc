"""A `Scene` from a refusal: everything that the running program can tell about one mismatch."""

import ast
import sys
from collections import Counter
from dataclasses import replace
from types import FrameType
from typing import Any, Final

from samedevice.model.diagnostic import Location
from samedevice.model.scene import Action, Decision, Holder, Kind, ModuleFact, Operand, Scene, Step
from samedevice.program import bindings as b
from samedevice.program.anchors import anchor_in
from samedevice.program.files import USER, kind_of, shown
from samedevice.program.frames import (
    Spot,
    location_of,
    source_of,
    spot_of,
    stack,
    statement_of,
    text_of,
    tree_of,
)
from samedevice.program.origins import Where, trace_value
from samedevice.program.values import MISSING, evaluate_in, instance_dict, is_tensor
from samedevice.virtual.holdings import Holdings
from samedevice.virtual.operands import OperandReader
from samedevice.virtual.provenance import Happened, ModuleMoved, Session
from samedevice.virtual.refusal import Refusal
from samedevice.virtual.steps import (
    alive,
    frames_of_stack,
    step_of_event,
    step_of_statement,
)
from samedevice.virtual.tags import CPU, META, device_index, device_name, tag_of

#: the device rules' families that are not about operands of one call
KINDS: Final = {
    "index": Kind.INDEX,
    "gradient": Kind.GRADIENT,
    "numpy": Kind.HOST_ONLY,
    "lengths": Kind.HOST_ONLY,
    "host-only": Kind.HOST_ONLY,
    "tensor-split": Kind.HOST_ONLY,
    "pin": Kind.PIN,
    "pinning": Kind.PIN,
    "generator": Kind.GENERATOR,
    "meta": Kind.META,
    "data-parallel": Kind.DATA_PARALLEL,
    "collective": Kind.COLLECTIVE,
    "load": Kind.LOAD,
    "fork": Kind.FORK,
}


def kind_of_refusal(refusal: Refusal) -> Kind:
    """What PyTorch refuses, by the rule that refused."""
    if refusal.family == "host-only" and any(device == CPU for _, _, device in refusal.operands):
        return Kind.OPERANDS  # an operator without a GPU version, given a mixture
    return KINDS.get(refusal.family, Kind.OPERANDS)


class SceneBuilder:
    """Builds the scene of one refusal while everything is alive."""

    def __init__(self, refusal: Refusal, frame: FrameType, session: Session, gpus: int) -> None:
        self.refusal = refusal
        self.session = session
        self.gpus = gpus
        self.stack = stack(frame)
        self.inner = frame
        self.users = [f for f in self.stack if kind_of(f.f_code.co_filename) == USER]
        self.frame = (self.users or self.stack or [frame])[-1]
        self.spot = spot_of(self.frame)
        self.kind = kind_of_refusal(refusal)
        self.holdings = Holdings(frame, session)

    def build(self) -> Scene:
        """The scene."""
        refusal = self.refusal
        reader = OperandReader(self.holdings, self.spot.node, self.frame)
        count = len(refusal.operands)
        operands = tuple(
            reader.read(name, tensor, device, i, count)
            for i, (name, tensor, device) in enumerate(refusal.operands)
        )
        operands = _without_repeats(operands)
        stray, wanted = self._blame(operands)
        scene = Scene(
            kind=self.kind,
            operator=self._operator(),
            exception=refusal.exception.__name__,
            message=refusal.message,
            raised=self._raised(),
            operands=operands,
            stray=stray,
            wanted=wanted,
            frames=frames_of_stack(self.stack),
            modules=tuple(self._modules(operands)),
            in_backward=self._in_backward(),
            gpus=self.gpus,
            extra=self._extra(operands),
        )
        return replace(scene, anchor=self._anchor(scene))

    # -- the call ------------------------------------------------------------------------------------

    def _raised(self) -> Location:
        node = self.spot.node
        if isinstance(node, (ast.stmt, ast.expr)):
            statement = statement_of(node)
            if isinstance(statement, (ast.For, ast.AsyncFor)) and isinstance(node, ast.stmt):
                return location_of(statement, self.spot.filename)
            found = location_of(node, self.spot.filename)
            if found.line == self.spot.line or isinstance(node, ast.Call):
                # A traceback names the line on which the call begins.
                return found
        return Location(shown(self.spot.filename), self.spot.line)

    def _operator(self) -> str:
        """What was called, in the words of the user's line."""
        node = self.spot.node
        if isinstance(node, ast.Call):
            return text_of(node.func, self.spot.filename)
        if isinstance(node, ast.BinOp):
            return _SIGNS.get(type(node.op), "operator")
        if isinstance(node, ast.AugAssign):
            return _SIGNS.get(type(node.op), "operator") + "="
        if isinstance(node, ast.Subscript):
            return "indexing"
        if isinstance(node, ast.Compare):
            return "comparison"
        return self.refusal.family

    def _in_backward(self) -> bool:
        return any(f.f_code.co_name == "_engine_run_backward" for f in _all_frames(self.inner))

    # -- who is out of place ------------------------------------------------------------------------

    def _blame(self, operands: tuple[Operand, ...]) -> tuple[int | None, str | None]:
        """(the operand out of place, where it belongs)."""
        if not operands:
            return None, None
        common = device_name(self.refusal.common)
        if self.kind in (Kind.HOST_ONLY, Kind.PIN):
            if self.refusal.blamed is not None:
                return self.refusal.blamed, "cpu"
            return _first(operands, lambda o: o.device not in ("cpu", "meta")), "cpu"
        if self.kind is Kind.META:
            return _first(operands, lambda o: o.device == "meta"), common
        if self.kind is Kind.GRADIENT:
            at = self.refusal.blamed
            return (len(operands) - 1 if at is None else at), common
        devices = [o.device for o in operands]
        gpus = [d for d in dict.fromkeys(devices) if d.startswith("cuda")]
        if "meta" in devices:
            return devices.index("meta"), gpus[0] if gpus else "cpu"
        if len(gpus) == 1:
            strays = [i for i, o in enumerate(operands) if o.device == "cpu" and self._counts(o)]
            return _worst(operands, strays), gpus[0]
        if len(gpus) > 1:
            return self._blame_between_gpus(operands, gpus)
        return None, None

    def _counts(self, operand: Operand) -> bool:
        """Whether the operand matters to the refusal: a CPU scalar may usually take part."""
        if not operand.zero_dim:
            return True
        others = [o for o in self.refusal.operands if device_name(o[2]) == operand.device]
        return (
            self.refusal.family != "tensor-iterator"
            or len(others) == 1
            or all(o[1].dim() == 0 for o in others)
        )

    def _blame_between_gpus(
        self, operands: tuple[Operand, ...], gpus: list[str]
    ) -> tuple[int | None, str | None]:
        """Of operands on several GPUs: who was put somewhere by hand follows who was computed."""
        cpu = [i for i, o in enumerate(operands) if o.device == "cpu" and not o.zero_dim]
        home = _home(operands, gpus)
        if cpu:
            return _worst(operands, cpu), home
        strays = [i for i, o in enumerate(operands) if o.device != home]
        return _worst(operands, strays), home

    # -- modules --------------------------------------------------------------------------------------

    def _modules(self, operands: tuple[Operand, ...]) -> list[ModuleFact]:
        found = {o.origin.module.owner: o.origin.module for o in operands if o.origin.module is not None}
        return list(found.values())

    # -- kind-specific facts ----------------------------------------------------------------------------

    def _extra(self, operands: tuple[Operand, ...]) -> dict[str, object]:
        extra: dict[str, object] = {"family": self.refusal.family}
        statement = self.spot.statement
        node = self.spot.node
        filename = self.spot.filename
        if statement is not None and not hasattr(statement, "body"):
            extra["statement"] = text_of(statement, filename)
        if isinstance(node, ast.expr):
            extra["call"] = text_of(node, filename)
        self._traced(extra)
        if self.kind is Kind.GENERATOR:
            self._generator(extra)
        if self.kind is Kind.PIN or self.kind is Kind.GENERATOR:
            self._loader(extra)
        if self.kind is Kind.META:
            self._meta(extra)
        if self.kind is Kind.DATA_PARALLEL:
            self._parallel(extra)
        if self.kind is Kind.INDEX and isinstance(node, ast.Subscript):
            self._moved_after(extra, node)
        if self.kind is Kind.GRADIENT:
            extra.update({k: v for k, v in self.refusal.extra.items() if isinstance(v, (str, int))})
        if len({o.device for o in operands if o.device.startswith("cuda")}) > 1:
            self._several_gpus(extra)
        if any(o.holder is Holder.OPTIMIZER_STATE for o in operands):
            self._optimizer(extra)
        extra["device_names"] = self._device_names()
        return extra

    def _several_gpus(self, extra: dict[str, object]) -> None:
        """Whether a DataParallel replica runs, and the device map that spread the modules."""
        for frame in _all_frames(self.inner):
            subject = frame.f_locals.get("self")
            if subject is not None and instance_dict(subject).get("_is_replica"):
                extra["replica"] = True
        maps: dict[Location, tuple[Decision, set[int]]] = {}
        reader = OperandReader(self.holdings, None, None)
        for event in self.session.events[:200]:
            if isinstance(event, ModuleMoved) and event.device >= 0:
                decision = reader.decision_of_move(event)
                if decision is not None and decision.how == "table":
                    maps.setdefault(decision.location, (decision, set()))[1].add(event.device)
        spread = [decision for decision, devices in maps.values() if len(devices) > 1]
        if spread:
            extra["device_map"] = spread[-1]

    def _optimizer(self, extra: dict[str, object]) -> None:
        """Where the optimizer was made and its state came from, and the move that left the state behind."""
        for _, tensor, _ in self.refusal.operands:
            seat = next(iter(self.holdings.seats_of(tag_of(tensor))), None)
            if seat is None or seat.link is not Holder.OPTIMIZER_STATE or seat.parent is None:
                continue
            optimizer = seat.parent.value
            tag = tag_of(tensor)
            born = 0 if tag is None or tag.birth is None else tag.birth.seq
            made = [
                e for e in self.session.events if isinstance(e, Happened) and alive(e.subject) is optimizer
            ]
            created = next((e for e in made if e.what == "optimizer-created"), None)
            loaded = [e for e in made if e.what == "optimizer-state-loaded"]
            if created is not None:
                extra["optimizer_made"] = step_of_event(created)
                place = None if tag is None or tag.birth is None else tag.birth.place
                if place is not None and (place.code, place.lasti) == (
                    created.place.code,
                    created.place.lasti,
                ):
                    extra["state_origin"] = extra["optimizer_made"]
            if loaded:
                extra["state_loaded"] = step_of_event(loaded[-1])
            for parameter in self.holdings.census.tensors:
                if parameter.link is not Holder.PARAMETER or parameter.parent is None:
                    continue
                if not any(parameter.value is p for group in optimizer.param_groups for p in group["params"]):
                    continue
                later = [m for m in self.holdings.moves_of(parameter.parent.value) if m.seq > born]
                if later:
                    extra["state_moved"] = step_of_event(later[0])
                    return
            return

    def _traced(self, extra: dict[str, object]) -> None:
        """The call runs inside a TorchScript graph; where it was traced."""
        for frame in _all_frames(self.inner):
            subject = frame.f_locals.get("self")
            kind = type(subject)
            if kind.__module__.startswith("torch.jit") and "Module" in kind.__name__:
                extra["traced"] = True
                break
        else:
            return
        node = self.spot.node
        if isinstance(node, ast.Call):
            where = Where(self.spot.filename, self.holdings.callers(self.frame))
            binding = trace_value(node.func, where)
            if binding is not None:
                extra["traced_at"] = step_of_statement(
                    binding.node, binding.filename, Action.CREATED, "torch.jit.trace"
                )

    def _generator(self, extra: dict[str, object]) -> None:
        import torch

        generator = self.refusal.extra.get("generator")
        default = torch.utils._device.CURRENT_DEVICE
        if default is not None and str(default).startswith("cuda"):
            extra["default_device"] = str(default)
            running = [f.f_code.co_filename for f in reversed(self.users)]
            files = list(dict.fromkeys([*running, *b.user_files()]))
            for filename, call in b.calls_of({"set_default_device", "set_default_tensor_type"}, files)[:1]:
                extra["default_set"] = step_of_statement(
                    call, filename, Action.ASSIGNED, "torch.set_default_device"
                )
        node = self.spot.node
        if isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg == "generator":
                    extra["generator_name"] = text_of(keyword.value, self.spot.filename)
                    found = evaluate_in(keyword.value, self.frame)
                    generator = generator if found is MISSING else found
                    where = Where(self.spot.filename, self.holdings.callers(self.frame))
                    binding = trace_value(keyword.value, where)
                    if binding is not None:
                        extra["generator_made"] = step_of_statement(
                            binding.node, binding.filename, Action.CREATED, "torch.Generator"
                        )
                    elif isinstance(keyword.value, ast.Call):
                        extra["generator_made"] = step_of_statement(
                            node, self.spot.filename, Action.CREATED, "torch.Generator"
                        )
        if generator is not None and "generator_made" not in extra:
            step = self._made_by_attribute(generator)
            if step is not None:
                extra["generator_made"] = step
        extra["generator_wanted"] = device_name(self.refusal.common).partition(":")[0]

    def _made_by_attribute(self, thing: Any) -> Step | None:
        """Where a class stores an object that one of its instances holds."""
        seat = self.holdings.census.objects.get(id(thing))
        if seat is None or seat.attribute is None or seat.host is None:
            return None
        stores = [
            s for s in b.attribute_bindings(type(seat.host.value), seat.attribute) if not b.is_empty(s.value)
        ]
        if not stores:
            return None
        return step_of_statement(stores[0].node, stores[0].filename, Action.CREATED, type(thing).__name__)

    def _loader(self, extra: dict[str, object]) -> None:
        """The DataLoader whose iteration is running, and where it was made."""
        import torch

        for frame in _all_frames(self.inner):
            subject = frame.f_locals.get("self")
            if isinstance(subject, torch.utils.data.dataloader._BaseDataLoaderIter):
                extra["in_loader"] = True
                break
        statement = self.spot.statement
        node = self.spot.node
        iterable: ast.expr | None = None
        if isinstance(statement, (ast.For, ast.AsyncFor)) and (
            node is None or node is statement or _inside(node, statement.iter)
        ):
            iterable = statement.iter
        elif isinstance(node, ast.Call) and node.args:
            iterable = node.args[0]
        elif isinstance(node, ast.expr):
            comprehension = next((c for c in ast.walk(node) if isinstance(c, ast.comprehension)), None)
            iterable = None if comprehension is None else comprehension.iter
        if iterable is None or "in_loader" not in extra:
            return
        where = Where(self.spot.filename, self.holdings.callers(self.frame))
        inner = iterable
        binding = trace_value(inner, where)
        if binding is not None:
            extra["loader_made"] = step_of_statement(
                binding.node, binding.filename, Action.CREATED, "DataLoader"
            )
            return
        for part in ast.walk(iterable):
            if (
                isinstance(part, ast.Call)
                and getattr(part.func, "id", getattr(part.func, "attr", "")) == "DataLoader"
            ):
                extra["loader_made"] = step_of_statement(
                    part, self.spot.filename, Action.CREATED, "DataLoader"
                )
                return
            if isinstance(part, ast.Attribute):
                found = self._made_by_attribute(evaluate_in(part, self.frame))
                if found is not None:
                    extra["loader_made"] = found

    def _meta(self, extra: dict[str, object]) -> None:
        """Under which `with torch.device("meta")` the module was built."""
        import torch

        tensor = next((t for _, t, d in self.refusal.operands if d == META), None)
        tag = None if tensor is None else tag_of(tensor)
        seat = next(iter(self.holdings.seats_of(tag)), None)
        if seat is None and tensor is not None:
            seat = next((s for s in self.holdings.census.tensors if s.value is tensor), None)
        if seat is None:
            seat = next((s for s in self.holdings.census.tensors if s.value.is_meta), None)
            if seat is not None:
                extra["meta_path"] = seat.path
                extra["meta_owner"] = seat.owner
                extra["meta_holder"] = seat.link
        if seat is not None and seat.host is not None and isinstance(seat.host.value, torch.nn.Module):
            extra["meta_persistent"] = seat.key not in seat.host.value._non_persistent_buffers_set
            top = self.holdings.top_of(seat.host.value)
            made = self.holdings.made(top)
            if made is not None and made.trail:
                code, lasti = made.trail[-1]
                for code, lasti in made.trail:
                    with_meta = _around_with(Spot(code, lasti))
                    if with_meta is not None:
                        extra["meta_block"] = with_meta
                extra["meta_made"] = step_of_event(made)
            loads = [
                e
                for e in self.session.events
                if isinstance(e, Happened) and e.what == "module-state-loaded" and alive(e.subject) is top
            ]
            if loads:
                extra["state_loaded"] = step_of_event(loads[-1])

    def _parallel(self, extra: dict[str, object]) -> None:
        import torch

        for frame in _all_frames(self.inner):
            subject = frame.f_locals.get("self")
            if isinstance(subject, torch.nn.DataParallel):
                module = subject.module
                extra["module_fact"] = self.holdings.fact(module, top=module)
                extra["device_ids"] = ", ".join(map(str, subject.device_ids))
                made = self.holdings.made(subject)
                if made is not None:
                    extra["wrapped_at"] = step_of_event(made)
                return

    def _moved_after(self, extra: dict[str, object], node: ast.Subscript) -> None:
        """`table[index].to(device)`: the move comes after the indexing that needs it."""
        above = getattr(node, "parent", None)
        while isinstance(above, (ast.Attribute, ast.Call)):
            if (
                isinstance(above, ast.Call)
                and isinstance(above.func, ast.Attribute)
                and above.func.attr in ("to", "cuda")
            ):
                extra["moved_after"] = text_of(above, self.spot.filename)
                extra["moved_before"] = (
                    f"{text_of(node.value, self.spot.filename)}.{above.func.attr}"
                    f"({', '.join(text_of(a, self.spot.filename) for a in above.args)})"
                    f"[{text_of(node.slice, self.spot.filename)}]"
                )
                return
            above = getattr(above, "parent", None)

    def _device_names(self) -> dict[str, str]:
        """Module-level variables that hold a device, where they are set: "model.device" -> "cuda"."""
        import torch

        found: dict[str, str] = {}
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if not isinstance(file, str) or kind_of(file) != USER:
                continue
            tree = tree_of(file)
            for variable, value in list(vars(module).items()):
                if isinstance(value, torch.device) and tree is not None:
                    bound = b.bindings_in(tree, variable, file)
                    if any(x.how == "assign" and x.whole for x in bound):
                        title = variable if name == "__main__" else f"{name}.{variable}"
                        found[title] = str(value)
        return found

    # -- what is right already ---------------------------------------------------------------------------

    def _anchor(self, scene: Scene) -> str | None:
        """An expression at the mistake's line that is in the right place already."""
        if scene.stray is None or scene.wanted is None:
            return None
        origin = scene.operands[scene.stray].origin
        born = origin.born
        if born is None or born.location is None or scene.wanted == "cpu":
            return None
        birth_spot = self._birth_spot(scene.stray, origin)
        live = None if birth_spot is None else self.holdings.live(birth_spot.code)

        def device(value: Any) -> str | None:
            return device_name(device_index(value)) if is_tensor(value) else None

        if live is not None:
            return anchor_in(spot_of(live), live, scene.wanted, device)
        return None if birth_spot is None else anchor_in(birth_spot, None, scene.wanted, device)

    def _birth_spot(self, stray: int, origin: Operand) -> Spot | None:
        from samedevice.virtual.steps import spot_of_place

        tag = tag_of(self.refusal.operands[min(stray, len(self.refusal.operands) - 1)][1])
        birth = None if tag is None else tag.birth
        while birth is not None:
            born = origin.born
            if born is not None and birth.seq == born.order:
                return spot_of_place(birth.place)
            candidates = [p for p in birth.parents if born is None or p.seq >= born.order]
            exact = [p for p in candidates if born is not None and p.seq == born.order]
            birth = next(iter(exact or candidates), None)
        return None


def _home(operands: tuple[Operand, ...], gpus: list[str]) -> str:
    """The GPU where the call belongs: a parameter's, else where most computed operands are, else the first."""
    for operand in operands:
        if operand.holder in (Holder.PARAMETER, Holder.BUFFER) and len(operand.shared) < 2:
            return operand.device
    computed = [
        o.device
        for o in operands
        if o.provenance and o.provenance[-1].action is Action.DERIVED and o.holder not in (Holder.ATTRIBUTE,)
    ]
    if len(set(computed)) == 1:
        return computed[0]
    placed = [o.device for o in operands if o.placed is not None]
    if len(set(placed)) == 1 and len(gpus) == 2:
        return next(g for g in gpus if g != placed[0])
    return Counter(o.device for o in operands if o.device in gpus).most_common(1)[0][0]


def _worst(operands: tuple[Operand, ...], strays: list[int]) -> int | None:
    """Of several strays the one that tells most about the mistake."""

    def key(i: int) -> int:
        origin = operands[i].origin
        if operands[i].discarded is not None or origin.discarded is not None:
            return 0
        if origin.holder is Holder.OPTIMIZER_STATE:
            return 1
        if origin.holder is Holder.PARAMETER:
            return 2
        if origin.holder in (Holder.BUFFER, Holder.ATTRIBUTE):
            return 3
        return 4

    return min(strays, key=key) if strays else None


def _first(operands: tuple[Operand, ...], test: Any) -> int | None:
    return next((i for i, o in enumerate(operands) if test(o)), None)


def _without_repeats(operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
    """A weight that appears twice (a view and its base) is shown once; order is kept."""
    if len(operands) <= 8:
        return operands
    kept = list(operands[:8])
    devices = {o.device for o in kept}
    kept += [o for o in operands[8:] if o.device not in devices][:1]
    return tuple(kept)


def _all_frames(frame: FrameType | None) -> list[FrameType]:
    found = []
    while frame is not None:
        found.append(frame)
        frame = frame.f_back
    return found


def _inside(node: ast.AST, outer: ast.AST) -> bool:
    return any(n is node for n in ast.walk(outer))


def _around_with(spot: Spot) -> Step | None:
    """The `with torch.device("meta")` block around a line."""
    node: ast.AST | None = spot.statement
    while node is not None:
        if isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                text = text_of(item.context_expr, spot.filename)
                if "meta" in text or "empty_weights" in text:
                    return Step(
                        Action.CREATED,
                        text,
                        location_of(node, spot.filename),
                        "meta",
                        expression=f"with {text}",
                    )
        node = getattr(node, "parent", None)
    return None


_SIGNS: Final = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.MatMult: "@",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.FloorDiv: "//",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
}

__all__ = ["CPU", "SceneBuilder", "kind_of_refusal", "source_of", "tree_of"]
