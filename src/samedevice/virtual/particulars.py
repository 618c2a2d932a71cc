"""Facts that only some kinds of mismatches have: generators, loaders, traces, device maps, meta, parallel."""

import ast
from types import FrameType
from typing import Any

from samedevice.model.diagnostic import Location
from samedevice.model.scene import Action, Decision, Holder, Kind, Operand, Step
from samedevice.program import bindings as b
from samedevice.program.frames import Spot, late_move, location_of, text_of, tree_of
from samedevice.program.imported import imported_modules
from samedevice.program.origins import Where, trace_value
from samedevice.program.values import MISSING, evaluate_in, instance_dict
from samedevice.virtual.holdings import Holdings
from samedevice.virtual.placements import Placements
from samedevice.virtual.provenance import Happened, ModuleMoved, Session
from samedevice.virtual.refusal import Refusal
from samedevice.virtual.steps import alive, spot_of_place, step_at, step_of_event, step_of_statement
from samedevice.virtual.surface import generators
from samedevice.virtual.tags import META, device_name, tag_of
from samedevice.virtual.tool_hooks import ToolHooks


class Particulars:
    """Gathers `Scene.extra` of one refusal."""

    def __init__(
        self,
        refusal: Refusal,
        kind: Kind,
        holdings: Holdings,
        session: Session,
        inner: FrameType,
        users: list[FrameType],
        frame: FrameType,
        spot: Spot,
    ) -> None:
        self.refusal = refusal
        self.kind = kind
        self.holdings = holdings
        self.session = session
        self.inner = inner
        self.users = users
        self.frame = frame
        self.spot = spot

    def gather(self, operands: tuple[Operand, ...]) -> dict[str, object]:
        """The facts by name, as rules ask for them."""
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
            extra.update(late_move(node, filename))
        if self.kind is Kind.GRADIENT:
            extra.update({k: v for k, v in self.refusal.extra.items() if isinstance(v, (str, int))})
        if len({o.device for o in operands if o.device.startswith("cuda")}) > 1:
            self._several_gpus(extra)
        if any(o.holder is Holder.OPTIMIZER_STATE for o in operands):
            self._optimizer(extra)
        extra["device_names"] = self._device_names()
        hook = ToolHooks(self.refusal, self.holdings, self.inner).find(operands)
        if hook is not None:
            extra["hook"] = hook
        return extra

    def _several_gpus(self, extra: dict[str, object]) -> None:
        """Whether a DataParallel replica runs, and the device map that spread the modules."""
        for frame in all_frames(self.inner):
            subject = frame.f_locals.get("self")
            if subject is not None and instance_dict(subject).get("_is_replica"):
                extra["replica"] = True
        maps: dict[Location, tuple[Decision, set[int]]] = {}
        placements = Placements(self.holdings)
        for event in self.session.events[:200]:
            if isinstance(event, ModuleMoved) and event.device >= 0:
                decision = placements.decision_of_move(event)
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
        for frame in all_frames(self.inner):
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
            made_at = generators.made_at(generator)
            spot = None if made_at is None else spot_of_place(made_at)
            step = self._made_by_attribute(generator)
            if spot is not None:
                extra["generator_made"] = step_at(spot, Action.CREATED, "torch.Generator")
            elif step is not None:
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

        for frame in all_frames(self.inner):
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
            made, part = self.holdings.made(top), self.holdings.made(seat.host.value)
            if made is not None and part is not None and not set(made.trail) <= set(part.trail):
                made = part  # it came to the model later
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

        for frame in all_frames(self.inner):
            subject = frame.f_locals.get("self")
            if isinstance(subject, torch.nn.DataParallel):
                module = subject.module
                extra["module_fact"] = self.holdings.fact(module, top=module)
                extra["device_ids"] = ", ".join(map(str, subject.device_ids))
                made = self.holdings.made(subject)
                if made is not None:
                    extra["wrapped_at"] = step_of_event(made)
                return

    def _device_names(self) -> dict[str, str]:
        """Module-level variables that hold a device, where they are set: "model.device" -> "cuda"."""
        import torch

        found: dict[str, str] = {}
        for name, module in imported_modules(self.users).items():
            file = str(module.__file__)
            tree = tree_of(file)
            for variable, value in list(vars(module).items()):
                if isinstance(value, torch.device) and tree is not None:
                    bound = b.bindings_in(tree, variable, file)
                    if any(x.how == "assign" and x.whole for x in bound):
                        title = variable if name == "__main__" else f"{name}.{variable}"
                        found[title] = str(value)
        return found


def all_frames(frame: FrameType | None) -> list[FrameType]:
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
