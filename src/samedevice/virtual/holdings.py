"""Which tensors and modules of the program are where, and what happened to the modules."""

import ast
from collections import Counter
from dataclasses import replace
from functools import cached_property
from types import FrameType
from typing import Any

import torch

from samedevice.model.scene import Action, Holder, ModuleFact, Step
from samedevice.program import bindings as b
from samedevice.program.files import USER, kind_of
from samedevice.program.frames import Spot, class_of, parent_of, scope_of, spot_of, user_frames
from samedevice.program.owners import Census, Seat, is_program_class
from samedevice.program.values import instance_dict, is_module
from samedevice.virtual.provenance import Birth, Happened, ModuleMade, ModuleMoved, Session
from samedevice.virtual.steps import alive, spot_of_place, step_at, step_of_event, step_of_statement
from samedevice.virtual.tags import Tag, device_index, device_name, tag_of

#: kinds of places, the most telling first: who *owns* a tensor before who merely names it
RANK = [
    Holder.PARAMETER,
    Holder.BUFFER,
    Holder.OPTIMIZER_STATE,
    Holder.ATTRIBUTE,
    Holder.CONTAINER,
    Holder.LOCAL,
    Holder.GLOBAL,
]


class Holdings:
    """A census of the live program with the tags and events that belong to it."""

    def __init__(self, frame: FrameType, session: Session) -> None:
        self.frames = user_frames(frame)
        self.session = session
        self.census = Census.of(self.frames)
        self.census.add_unnamed(_running_modules(frame))
        self.by_tag: dict[int, list[Seat]] = {}
        self.by_birth: dict[Birth, list[Seat]] = {}
        self.made_from: dict[Birth, list[Seat]] = {}
        for seat in self.census.tensors:
            tag = tag_of(seat.value)
            if tag is None:
                continue
            self.by_tag.setdefault(id(tag), []).append(seat)
            if tag.birth is not None:
                self.by_birth.setdefault(tag.birth, []).append(seat)
                if tag.birth.action is Action.MOVED:
                    for parent in tag.birth.parents:
                        self.made_from.setdefault(parent, []).append(seat)

    @cached_property
    def module_move_places(self) -> set[tuple[Any, int]]:
        """Where modules were moved: their parameters' copies are not thrown away there."""
        return {(e.place.code, e.place.lasti) for e in self.session.events if isinstance(e, ModuleMoved)}

    @cached_property
    def moved_births(self) -> set[Birth]:
        """Births of which a copy was moved to a GPU."""
        moves = (m for at in self.session.tensor_moves.values() for m in at)
        return {m.source for m in moves if m.source is not None and m.birth.device >= 0}

    # -- tensors -----------------------------------------------------------------------------------

    def seats_of(self, tag: Tag | None) -> list[Seat]:
        """Where the storage is held, the owner first."""
        return [] if tag is None else self.ranked(self.by_tag.get(id(tag), []))

    def seats_of_birth(self, birth: Birth) -> list[Seat]:
        """Where a storage with this birth is held, the owner first."""
        return self.ranked(self.by_birth.get(birth, []))

    @cached_property
    def _gradients(self) -> dict[int, Seat]:
        found: dict[int, Seat] = {}
        for seat in self.census.tensors:
            if seat.link is Holder.PARAMETER and seat.value.is_leaf and seat.value.grad is not None:
                tag = tag_of(seat.value.grad)
                if tag is not None:
                    found.setdefault(id(tag), seat)
        return found

    def gradient_seat(self, tag: Tag | None) -> Seat | None:
        """The parameter whose gradient has this storage."""
        return None if tag is None else self._gradients.get(id(tag))

    @staticmethod
    def ranked(seats: list[Seat]) -> list[Seat]:
        """The seats, the one that owns before those that only name."""

        def key(seat: Seat) -> tuple[int, bool, int]:
            link = seat.link
            if link is Holder.CONTAINER and seat.host is not None and not is_data(seat.host.value):
                link = Holder.ATTRIBUTE
            elif link is Holder.ATTRIBUTE and seat.host is not None and is_data(seat.host.value):
                link = Holder.CONTAINER
            # A module's `to` could have moved what it keeps; who else has it in hand only shares it.
            shared = link is Holder.ATTRIBUTE and (seat.host is None or not is_module(seat.host.value))
            return RANK.index(link), shared, seat.depth

        return sorted(seats, key=key)

    # -- modules -----------------------------------------------------------------------------------

    @cached_property
    def modules(self) -> dict[int, Seat]:
        return self.census.modules

    def top_of(self, module: Any) -> Any:
        """The outermost module that contains it as a registered submodule."""
        seen = set()
        while id(module) in self.census.registered and id(module) not in seen:
            seen.add(id(module))
            module = self.census.registered[id(module)].value
        return module

    def moves_of(self, module: Any) -> list[ModuleMoved]:
        """Moves of the module itself or of a module that contains or contained it, in order."""
        moved, concerned = module, set()
        while id(module) not in concerned:
            concerned.add(id(module))
            parent = self.census.registered.get(id(module))
            if parent is None:
                break
            module = parent.value
        return [
            event
            for event in self.session.events
            if isinstance(event, ModuleMoved)
            and (id(alive(event.module)) in concerned or any(alive(m) is moved for m in event.inside))
        ]

    def made(self, module: Any) -> ModuleMade | None:
        """Where the module was constructed; deep copies were not."""
        try:
            return self.session.made.get(module)
        except TypeError:
            return None

    def copy_event(self, module: Any) -> Happened | None:
        """The `deepcopy` that made the module or one that contains it."""
        found = None
        while found is None:
            for event in self.session.events:
                if isinstance(event, Happened) and event.what == "deepcopy":
                    result = alive(event.subject)
                    if result is module or (result is not None and _contains(result, module)):
                        found = event
            parent = self.census.registered.get(id(module))
            if parent is None or parent.value is module:
                break
            module = parent.value
        return found

    def fact(self, module: Any, top: Any = None) -> ModuleFact:
        """What is known of a module that holds a stray parameter or buffer; `top`: the outermost to look at."""
        top = self.top_of(module) if top is None else top
        seat = self.modules.get(id(module))
        top_seat = self.modules.get(id(top), seat)
        moves = self.moves_of(module)
        made = self.made(module)
        top_made = self.made(top)
        copied = self.copy_event(module) if made is None or (top_made is None) else None
        kept, keeper = self._kept(top, top_made)
        order = made.seq if made is not None else 0
        before = [m for m in moves if made is not None and m.seq < made.seq]
        creation, created_module = (top_made, top) if top_made is not None else (made, module)
        if before and made is not None:
            creation, created_module = made, module
        original = None if copied is None else alive(copied.detail.get("source"))
        original_moves: list[ModuleMoved] = []
        if original is not None and copied is not None:
            original_moves = [m for m in self.moves_of(original) if m.seq > copied.seq]
        return ModuleFact(
            owner=seat.path if seat is not None else type(module).__name__,
            class_name=type(module).__name__,
            device=_device_of(module),
            registered=kept is None,
            root=None if top_seat is None else top_seat.path,
            created=None if creation is None else self.construction(creation, created_module),
            moves=tuple(step_of_event(m) for m in moves if m.seq > order),
            is_loss=_is_loss(top),
            is_metric=_is_metric(top),
            parameters=sum(1 for _ in _tensors(top, "_parameters")),
            copied=None if copied is None else step_of_event(copied),
            copy_of=None if original is None else self._path(original),
            original_moves=tuple(step_of_event(m) for m in original_moves),
            kept=kept,
            keeper=None if keeper is None else type(keeper.value).__name__,
            keeper_path=None if keeper is None else self._kept_path(top),
            keeper_moves=()
            if keeper is None
            else tuple(step_of_event(m) for m in self.moves_of(keeper.value) if m.seq > order),
            joined=self.construction(made, module) if made is not None and before else None,
            host_moves=tuple(step_of_event(m) for m in before),
            root_class=type(top).__name__,
            root_device=_moved_now(before[-1] if before else None) or _device_of(top),
            in_forward=self._forward_that_made(creation, created_module),
            replica=bool(instance_dict(module).get("_is_replica")),
            never_moved=not moves,
            moves_attributes=type(module)._apply is not torch.nn.Module._apply,
        )

    def last_move(self, module: Any) -> ModuleMoved | None:
        """The last move of the module or of one that contains it."""
        moves = self.moves_of(module)
        return moves[-1] if moves else None

    def _path(self, module: Any) -> str | None:
        seat = self.modules.get(id(module))
        return None if seat is None else seat.path

    def _loose_seat(self, module: Any) -> Seat | None:
        for seat in self.census.loose.get(id(module), ()):
            host = seat.host
            if host is not None and is_module(host.value):
                return seat
        return None

    def _kept_path(self, module: Any) -> str | None:
        seat = self._loose_seat(module)
        return None if seat is None or seat.attribute is None else f"self.{seat.attribute}"

    def _kept(self, module: Any, made: ModuleMade | None) -> tuple[Step | None, Seat | None]:
        """(statement that put the module out of `Module.to`'s reach, the module that keeps it so)."""
        seat = self._loose_seat(module)
        if seat is None or seat.attribute is None or seat.host is None:
            return None, None
        line = 0 if made is None else _line_in_class(made, type(seat.host.value))
        binding = keeping(type(seat.host.value), seat.attribute, line)
        if binding is None:
            return None, None
        return step_of_statement(binding.node, binding.filename, Action.CACHED, binding.how), seat.host

    def construction(self, made: ModuleMade, module: Any) -> Step:
        """The call that constructed the module: outside of its own `__init__`, and of what makes all kinds."""
        step = step_of_event(made)
        outside = _outside(made, module)
        if outside is None:
            return step
        while len(outside) > 1 and _makes_any_kind(outside[-1]):
            outside.pop()
        at = step_at(outside[-1], Action.CREATED, made.class_name, None, made.seq)
        return replace(at, trail=step.trail[: len(outside)])

    def _forward_that_made(self, made: ModuleMade | None, module: Any) -> str | None:
        """The class in whose running `forward` the module was made, None if it was made elsewhere."""
        outside = None if made is None else _outside(made, module)
        if not outside or outside[-1].function != "forward":
            return None
        return outside[-1].class_name or "forward"

    # -- surroundings ------------------------------------------------------------------------------

    def live(self, code: Any) -> FrameType | None:
        """The innermost live frame that runs this code."""
        return next((f for f in reversed(self.frames) if f.f_code is code), None)

    def callers(self, frame: FrameType) -> tuple[Spot, ...]:
        """The user's frames outside of `frame`, outermost first."""
        found: list[Spot] = []
        for other in self.frames:
            if other is frame:
                break
            found.append(spot_of(other))
        return tuple(found)

    def instance_for(self, spot: Spot) -> Any:
        """A living object on which the method at `spot` may have run, None unless its class is clear."""
        node = spot.statement
        definition = None if node is None else class_of(node)
        if definition is None:
            return None
        found: dict[type, Any] = {}
        for seat in self.census.objects.values():
            kind = type(seat.value)
            if kind not in found and any(base.__name__ == definition.name for base in kind.__mro__):
                found[kind] = seat.value
        return next(iter(found.values())) if len(found) == 1 else None


def _running_modules(frame: FrameType | None) -> list[Any]:
    """Modules whose methods run in torch's own frames below the user's line."""
    found = []
    while frame is not None and kind_of(frame.f_code.co_filename) != USER:
        subject = frame.f_locals.get("self")
        if is_module(subject):
            found.append(subject)
        frame = frame.f_back
    return found


def _outside(made: ModuleMade, module: Any) -> list[Spot] | None:
    """The recorded stack without the module's own constructors."""
    own = {base.__name__ for base in type(module).__mro__}
    spots = [Spot(code, lasti) for code, lasti in made.trail]
    while spots and spots[-1].function == "__init__" and spots[-1].class_name in own:
        spots.pop()
    return spots or None


def _makes_any_kind(spot: Spot) -> bool:
    """`return self.classes[name](**options)`: a registry's line, which its callers choose the class for."""
    node, scope = spot.node, None if spot.node is None else scope_of(spot.node)
    if not isinstance(node, ast.Call) or not isinstance(parent_of(node), ast.Return):
        return False
    called = node.func
    if isinstance(called, ast.Name) and isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return any(binding.how != "import" for binding in b.bindings_in(scope, called.id, spot.filename))
    return isinstance(called, (ast.Subscript, ast.Call))


def keeping(kind: type, attribute: str, line: int) -> b.Binding | None:
    """The statement that stores something in `self.<attribute>`, the likeliest one for a birth on `line`."""
    stores = b.attribute_bindings(kind, attribute)
    if not stores:
        stores = b.foreign_bindings(b.user_files(), attribute)
    full = [s for s in stores if not b.is_empty(s.value)] or stores
    if not full:
        return None
    for store in full:
        statement = store.node
        first = getattr(statement, "lineno", 0)
        last = first if hasattr(statement, "body") else (getattr(statement, "end_lineno", None) or first)
        if line and first <= line <= last:
            return store
    near = [s for s in full if line and _same_function(s, line)]
    chosen = near or full
    chosen.sort(key=lambda s: getattr(b.method_of(s.node), "name", "") not in ("__init__", "__post_init__"))
    return chosen[0]


def _same_function(store: b.Binding, line: int) -> bool:
    method = b.method_of(store.node)
    return method is not None and method.lineno <= line <= (method.end_lineno or method.lineno)


def _line_in_class(made: ModuleMade, kind: type) -> int:
    """The line of the class's own code that led to the construction."""
    spans = [(f, d.lineno, d.end_lineno or d.lineno) for f, d in b.class_definitions(kind)]
    for code, lasti in reversed(made.trail):
        line = Spot(code, lasti).line
        if any(f == code.co_filename and first <= line <= last for f, first, last in spans):
            return line
    spot = spot_of_place(made.place)
    return 0 if spot is None else spot.line


def _contains(outer: Any, module: Any) -> bool:
    return is_module(outer) and any(m is module for m in _submodules(outer))


def _submodules(module: Any) -> "list[Any]":
    found, queue = [], [module]
    while queue:
        current = queue.pop()
        found.append(current)
        queue += [m for m in instance_dict(current).get("_modules", {}).values() if m is not None]
    return found


def _tensors(module: Any, *registries: str) -> "list[Any]":
    return [
        t
        for m in _submodules(module)
        for registry in registries
        for t in instance_dict(m).get(registry, {}).values()
        if t is not None
    ]


def _moved_now(move: ModuleMoved | None) -> str | None:
    """Where nearly all that a move took along is by now: what joined later may be as much again."""
    if move is None:
        return None
    own = [instance_dict(m).get("_parameters", {}).values() for m in map(alive, move.inside) if m is not None]
    return _nearly_all(Counter(device_index(t) for tensors in own for t in tensors if t is not None))


def _device_of(module: Any) -> str | None:
    """Where nearly all parameters (or else buffers) of the module are."""
    devices = Counter(device_index(t) for t in _tensors(module, "_parameters"))
    if not devices:
        devices = Counter(device_index(t) for t in _tensors(module, "_buffers"))
    return _nearly_all(devices)


def all_on(module: Any) -> str | None:
    """The one device of all its parameters and buffers."""
    devices = {device_index(t) for t in _tensors(module, "_parameters", "_buffers")}
    return device_name(devices.pop()) if len(devices) == 1 else None


def _nearly_all(devices: Counter[int]) -> str | None:
    if not devices:
        return None
    device, count = devices.most_common(1)[0]
    return device_name(device) if count * 2 > devices.total() else None


def _is_loss(module: Any) -> bool:
    names = [base.__name__ for base in type(module).__mro__]
    return any(n in ("_Loss", "_WeightedLoss") for n in names) or type(module).__name__.lower().endswith(
        "loss"
    )


def _is_metric(module: Any) -> bool:
    """It accumulates (`update` and `compute`) and has nothing to learn, or is torchmetrics' own."""
    if any(base.__name__ == "Metric" for base in type(module).__mro__):
        return True
    learns = bool(_tensors(module, "_parameters"))
    return not learns and hasattr(type(module), "update") and hasattr(type(module), "compute")


def is_data(value: Any) -> bool:
    """A record of data (dataclass, named tuple, batch) rather than an object with a life of its own."""
    kind = type(value)
    if is_module(value):
        return False
    if hasattr(kind, "__dataclass_fields__") or hasattr(kind, "_fields"):
        return True
    name = kind.__name__.lower()
    return is_program_class(kind) and any(
        w in name for w in ("batch", "sample", "example", "features", "inputs")
    )
