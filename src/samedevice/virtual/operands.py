"""Tensors of a failing call as `Operand`s: what the user wrote, who holds them, how they came to be."""

import ast
from collections.abc import Set
from dataclasses import replace
from types import FrameType
from typing import Any

from samedevice.model.scene import Action, Entry, Holder, Operand, Relative, Step
from samedevice.program import bindings as b
from samedevice.program.frames import (
    Spot,
    scope_of,
    spot_of,
    text_of,
    user_frames,
)
from samedevice.program.owners import Seat
from samedevice.program.values import evaluate_in, is_module
from samedevice.virtual.constructors import Constructors, is_unknown
from samedevice.virtual.earlier import fills_in_use, package_of_class, used_before
from samedevice.virtual.entries import is_record, names_in, read_entry
from samedevice.virtual.holdings import Holdings, is_data, keeping
from samedevice.virtual.placements import Placements
from samedevice.virtual.provenance import Birth
from samedevice.virtual.steps import (
    spot_of_place,
    step_at,
    step_of_birth,
    step_of_event,
    step_of_statement,
)
from samedevice.virtual.tags import Tag, device_index, device_name, tag_of
from samedevice.virtual.written import WrittenCall

STATE = (Holder.PARAMETER, Holder.BUFFER, Holder.OPTIMIZER_STATE)


class OperandReader:
    """Reads the operands of one failing call; `blamed`: births that earlier mistakes went back to."""

    def __init__(
        self,
        holdings: Holdings,
        call: ast.AST | None,
        frame: FrameType | None,
        blamed: Set[int] = frozenset(),
    ) -> None:
        self.holdings = holdings
        self.blamed = blamed
        self.written = WrittenCall(holdings, call, frame)
        self.constructors = Constructors(holdings, call, frame)
        self._files = {f.f_code.co_filename for f in user_frames(frame)}
        self.placements = Placements(holdings)

    # -- the operand -------------------------------------------------------------------------------

    def read(self, name: str, tensor: Any, device: int, number: int, count: int) -> Operand:
        """Everything known of one operand."""
        tag = tag_of(tensor)
        birth = None if tag is None else tag.birth
        seat = self._seat(tensor, tag)
        operand = self._operand(
            name, device, seat, birth, tag, self.written.expression(tensor, tag, number, count), tensor
        )
        if is_unknown(birth):
            made = self.constructors.of_operand(operand.expression, device)
            return operand if made is None else replace(operand, provenance=(made,))
        owned = operand.holder in (*STATE, Holder.ATTRIBUTE)
        if birth is not None and not owned and birth.action is Action.DERIVED:
            root = self._constructed(birth) or (self._root(birth) if birth.parents else None)
            if root is not None and root.born is not None and root.born.location is not None:
                return replace(operand, root=root)
        return operand

    def _constructed(self, birth: Birth) -> Operand | None:
        """What a tensor was computed from, when no birth is known of any of it."""
        first = [root for root in birth.roots if root.action is Action.DERIVED]
        if len(first) < len(birth.roots):
            return None
        made = next((m for root in first if (m := self.constructors.of_derived(root)) is not None), None)
        if made is None:
            return None
        root = self._operand("", birth.device, None, None, None, made.expression, None)
        return replace(root, provenance=(made,))

    def _seat(self, tensor: Any, tag: Tag | None) -> Seat | None:
        seats = self.holdings.seats_of(tag)
        if seats and _owned(seats[0]):
            return seats[0]
        same = [s for s in seats if s.value is tensor]
        return next(iter(same or seats), None)

    def _root(self, birth: Birth) -> Operand | None:
        """The most telling root of a derived tensor; one that was blamed already explains nothing new."""
        best: tuple[tuple[bool, bool, int], Birth, Seat | None] | None = None
        for root in birth.parents:
            if root.device != birth.device:
                continue
            seats = self.holdings.seats_of_birth(root)
            seat = seats[0] if seats else None
            if _owned(seat):
                score = 0
            elif root.action in (Action.CREATED, Action.FROM_NUMPY) and not root.explicit_device:
                score = 1
            elif seat is not None:
                score = 2
            else:
                score = 3
            scalar = seat is not None and seat.value.dim() == 0
            key = (root.seq in self.blamed, scalar, score)
            if best is None or key < best[0]:
                best = (key, root, seat)
        if best is None:
            return None
        _, root, seat = best
        if seat is None and (between := self._kept_between(birth, root)) is not None:
            seat, root = between
        return self._operand("", root.device, seat, root, None, None, None if seat is None else seat.value)

    def _kept_between(self, birth: Birth, root: Birth) -> tuple[Seat, Birth] | None:
        """What an object keeps of the way from a root that is gone to a tensor derived from it.

        A cache of angles: `angles.cos()` was computed from the cache, whose own roots it has. Or what a function
        hands on by name: in a loss, `-target` was computed from it.
        """
        best: tuple[int, int, Seat, Birth] | None = None
        handed: list[tuple[Seat, Birth]] = []
        for kept, seats in self.holdings.by_birth.items():
            if (
                kept.action is not Action.DERIVED
                or kept.device != birth.device
                or kept.seq >= birth.seq
                or root not in kept.parents
                or not set(kept.parents) <= set(birth.parents)
            ):
                continue
            seat = self.holdings.ranked(seats)[0]
            key = (-len(kept.parents), seat.depth)
            if _owned(seat) and (best is None or key < best[:2]):
                best = (*key, seat, kept)
            elif seat.frame >= 0 and _is_local(seat) and seat.chain()[0].key in self._read_in(seat.frame):
                handed.append((seat, kept))
        if best is None and len(handed) == 1:
            return handed[0]
        return None if best is None else best[2:]

    def _operand(
        self,
        name: str,
        device: int,
        seat: Seat | None,
        birth: Birth | None,
        tag: Tag | None,
        expression: str | None,
        tensor: Any,
    ) -> Operand:
        is_gradient = seat is None and tag is not None
        seat = self.holdings.gradient_seat(tag) if seat is None else seat
        host = None if seat is None else seat.host
        holder = Holder.TEMPORARY if seat is None else _holder(seat)
        module = None
        host_moves: tuple[Step, ...] = ()
        package = before = None
        if seat is not None and holder in (Holder.PARAMETER, Holder.BUFFER) and host is not None:
            module = self.holdings.fact(host.value)
        elif seat is not None and holder is Holder.ATTRIBUTE and host is not None and is_module(host.value):
            module = self.holdings.fact(host.value)
            later = [m for m in self.holdings.moves_of(host.value) if m.seq > _first_order(birth)]
            host_moves = tuple(step_of_event(m) for m in later)
            package = package_of_class(type(host.value))
            if later and package is not None and fills_in_use(type(host.value), seat.attribute):
                before = None if self._made_with(host.value, birth) else used_before(later[0])
        decision, placed = self.placements.placing(birth, None if host is None else host.value, holder)
        if module is not None and holder is not Holder.ATTRIBUTE:
            module = replace(module, decision=decision)
        return Operand(
            name=name,
            device=device_name(device),
            expression=expression,
            path=None if seat is None else f"{seat.path}.grad" if is_gradient else seat.path,
            owner=None if seat is None else f"{seat.owner}.grad" if is_gradient else seat.owner,
            holder=holder,
            holder_class=None if host is None else type(host.value).__name__,
            holder_is_module=host is not None and is_module(host.value),
            module=module,
            shape=tuple(tensor.shape) if tensor is not None else None,
            dtype=str(tensor.dtype).removeprefix("torch.") if tensor is not None else None,
            provenance=() if birth is None else tuple(step_of_birth(x) for x in birth.history()),
            requires_grad=bool(tensor is not None and tensor.requires_grad),
            zero_dim=tensor is not None and tensor.dim() == 0,
            attribute=None if seat is None else seat.attribute,
            host_path=None if host is None else host.path,
            host_moves=host_moves,
            kept=self._kept(seat, holder, birth),
            in_global=seat is not None and seat.chain()[0].link is Holder.GLOBAL,
            entry=self._entry(birth, tag),
            discarded=self.placements.discarded(birth),
            placed=placed,
            decision=decision,
            relatives=self._relatives(seat, birth),
            shared=self._shared(tag),
            stored_in=self._stored_in(seat, holder),
            host_made=self._host_made(seat, holder),
            memoized=_is_memoized(birth),
            holder_package=package,
            used_before=before,
        )

    def _made_with(self, module: Any, birth: Birth | None) -> bool:
        """The tensor was born while the module was constructed."""
        made = self.holdings.made(module)
        place = None if birth is None else birth.place
        return made is not None and place is not None and (place.code, place.lasti) in made.trail

    def _stored_in(self, seat: Seat | None, holder: Holder) -> tuple[str, ...]:
        if seat is None or holder is not Holder.ATTRIBUTE or seat.host is None or seat.attribute is None:
            return ()
        stores = b.attribute_bindings(type(seat.host.value), seat.attribute)
        names = (getattr(b.method_of(s.node), "name", None) for s in stores if not b.is_empty(s.value))
        return tuple(dict.fromkeys(n for n in names if n))

    def _host_made(self, seat: Seat | None, holder: Holder) -> Step | None:
        """The call that made the object (not a module) which holds the tensor."""
        if seat is None or holder is not Holder.ATTRIBUTE:
            return None
        host = seat.host
        if host is None or is_module(host.value):
            return None
        if host.host is not None and host.attribute is not None:
            # Another object holds it ("trainer.average"): made where that attribute is set.
            store = keeping(type(host.host.value), host.attribute, 0)
            if store is None or not isinstance(store.value, ast.Call):
                return None
            return step_of_statement(store.node, store.filename, Action.CREATED, type(host.value).__name__)
        if seat.frame < 0:
            return None
        variable = seat.chain()[0]
        frame = self.holdings.frames[seat.frame]
        node = spot_of(frame).statement
        scope = None if node is None else scope_of(node)
        if node is None or scope is None:
            return None
        for binding in b.reaching(scope, str(variable.key), node.lineno, frame.f_code.co_filename):
            if isinstance(binding.value, ast.Call):
                return step_of_statement(
                    binding.node, binding.filename, Action.CREATED, type(host.value).__name__
                )
        return None

    def _shared(self, tag: Tag | None) -> tuple[str, ...]:
        seats = self.holdings.seats_of(tag) if tag is not None else []
        hosts = {id(s.parent.value): s for s in seats if s.link is Holder.PARAMETER and s.parent is not None}
        return tuple(s.path for s in hosts.values()) if len(hosts) > 1 else ()

    # -- where it is kept --------------------------------------------------------------------------

    def _kept(self, seat: Seat | None, holder: Holder, birth: Birth | None) -> Step | None:
        if seat is None or birth is None:
            return None
        spot = spot_of_place(birth.place)
        line = 0 if spot is None else spot.line
        binding: b.Binding | None = None
        if holder is Holder.OPTIMIZER_STATE and isinstance(seat.key, tuple):
            if _made_by_optimizer(birth, spot):
                return None
            # A file that takes no part may write such state too; that says nothing of this tensor.
            taking_part = self._files | ({spot.filename} if spot is not None else set())
            stores = b.state_bindings(b.user_files(), str(seat.key[1]))
            stores = [s for s in stores if s.filename in taking_part]
            binding = next((s for s in stores if _is_on(s, spot)), next(iter(stores), None))
        elif holder is Holder.CONTAINER and seat.chain()[0].link is Holder.GLOBAL and spot is not None:
            binding = self._cached_globally(str(seat.chain()[0].key), spot)
        elif holder in (Holder.ATTRIBUTE, Holder.BUFFER) and seat.host is not None and seat.attribute:
            binding = keeping(type(seat.host.value), seat.attribute, line)
        if binding is None:
            return None
        return step_of_statement(binding.node, binding.filename, Action.CACHED, binding.how)

    @staticmethod
    def _cached_globally(name: str, spot: Spot) -> b.Binding | None:
        """The statement of the birth's own function that stores into a global container."""
        statement = spot.statement
        function = None if statement is None else b.method_of(statement)
        for node in () if function is None else ast.walk(function):
            targets = node.targets if isinstance(node, ast.Assign) else []
            for target in targets:
                base: ast.AST = target
                while isinstance(base, ast.Subscript):
                    base = base.value
                if isinstance(base, ast.Name) and base.id == name and base is not target:
                    return b.Binding(spot.filename, node, getattr(node, "value", None), "item")
        return None

    def _relatives(self, seat: Seat | None, birth: Birth | None) -> tuple[Relative, ...]:
        found: dict[int, tuple[Seat, bool]] = {}
        if birth is not None:
            for other in self.holdings.made_from.get(birth, ()):
                found[id(other.value)] = (other, True)
        copies: set[int] = set()
        if birth is not None and birth.action is Action.DERIVED and _copies(birth.function):
            for parent in birth.parents[:1]:
                for other in self.holdings.made_from.get(parent, ()):
                    found.setdefault(id(other.value), (other, False))
                    copies.add(id(other.value))
        # Last: a container of a model's weights has more neighbours than are kept.
        for held in () if seat is None else self._holding(seat):
            for other in self._neighbours(held):
                found.setdefault(id(other.value), (other, False))
        relatives = []
        for other, same_data in list(found.values())[:24]:
            tag = tag_of(other.value)
            relatives.append(
                Relative(
                    other.path,
                    device_name(device_index(other.value)),
                    _holder(other),
                    other.owner,
                    None if tag is None or tag.birth is None else step_of_birth(tag.birth),
                    same_data,
                    id(other.value) in copies,
                )
            )
        return tuple(relatives)

    def _holding(self, seat: Seat) -> list[Seat]:
        """The seat, then other records that have the very same tensor: a batch as it was and as it was moved."""
        tag = tag_of(seat.value)
        return [seat, *(s for s in self.holdings.seats_of(tag) if s is not seat and s.value is seat.value)]

    def _neighbours(self, seat: Seat) -> list[Seat]:
        """Other tensors in the same record or container of data."""
        outer = seat.parent
        while outer is not None and outer.parent is not None and is_record(outer.parent.value):
            outer = outer.parent
        if outer is None or not is_record(outer.value):
            return []
        return [
            other
            for other in self.holdings.census.tensors
            if other is not seat and outer in other.chain()[:-1]
        ]

    # -- how it came into the program's functions --------------------------------------------------

    def _attribute_handed_on(self, seats: list[Seat], before: int | None) -> Entry | None:
        """The running line that reads the tensor as an object's attribute, outside of where it has a name."""
        tensors = {id(seat.value) for seat in seats if _holder(seat) is Holder.ATTRIBUTE}
        for frame in self.holdings.frames[:-1][:before] if tensors else ():
            spot = spot_of(frame)
            for node in ast.walk(spot.node) if isinstance(spot.node, ast.expr) else ():
                if isinstance(node, ast.Attribute) and id(evaluate_in(node, frame)) in tensors:
                    used = step_at(spot, Action.RECEIVED, "used")
                    return Entry(text_of(node, spot.filename), used, function=frame.f_code.co_name)
        return None

    def _read_in(self, frame: int) -> set[str]:
        """The names that the running line of a frame reads."""
        spot = spot_of(self.holdings.frames[frame])
        return names_in(spot.node or spot.statement)

    def _entry(self, birth: Birth | None, tag: Tag | None) -> Entry | None:
        seats = self.holdings.seats_of(tag) if tag is not None else []
        if not seats and birth is not None:
            seats = self.holdings.seats_of_birth(birth)
        named = [s for s in seats if s.frame >= 0 and _is_local(s)]
        handing = [s.frame for s in named if s.chain()[0].key in self._read_in(s.frame)]
        attribute = self._attribute_handed_on(seats, min(handing, default=None))
        if attribute is not None or not named:
            return attribute
        # The outermost function that hands it on; a caller further out may know it by name as well.
        outermost = min(handing or (s.frame for s in named))
        frame = self.holdings.frames[outermost]
        used = self._read_in(outermost)
        seat = min(
            (s for s in named if s.frame == outermost), key=lambda s: (s.chain()[0].key not in used, s.depth)
        )
        return read_entry(self.holdings, seat, frame)


def _holder(seat: Seat) -> Holder:
    """The seat's kind of place; what lies in a list of an object belongs to that object's attribute."""
    if seat.link is Holder.CONTAINER and seat.host is not None and not is_data(seat.host.value):
        return Holder.ATTRIBUTE
    if seat.link is Holder.ATTRIBUTE and seat.host is not None and is_data(seat.host.value):
        return Holder.CONTAINER
    return seat.link


def _owned(seat: Seat | None) -> bool:
    """Held by something with a life of its own: a module, an optimizer, an object."""
    return seat is not None and _holder(seat) in (*STATE, Holder.ATTRIBUTE)


def _is_local(seat: Seat) -> bool:
    """Reached from a variable through containers and records of data only."""
    chain = seat.chain()
    return all(is_record(s.value) for s in chain[:-1])


def _copies(function: str) -> bool:
    """The function makes a copy of its one operand, or a tensor that is where that is."""
    name = function.rpartition(".")[2]
    return name.endswith("_like") or name in (
        "clone",
        "deepcopy",
        "detach",
        "__deepcopy__",
        "copy",
        "contiguous",
    )


def _is_memoized(birth: Birth | None) -> bool:
    """The function in which the tensor was born is decorated with `functools.cache` or `lru_cache`."""
    spot = None if birth is None else spot_of_place(birth.place)
    node = None if spot is None else spot.statement
    function = None if node is None else b.method_of(node)
    for decorator in () if function is None else function.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
        if name in ("cache", "lru_cache"):
            return True
    return False


def _first_order(birth: Birth | None) -> int:
    return 0 if birth is None else birth.seq


def _is_on(store: b.Binding, spot: Spot | None) -> bool:
    """The statement stores what its own line has made."""
    first = getattr(store.node, "lineno", 0)
    last = getattr(store.node, "end_lineno", None) or first
    return spot is not None and store.filename == spot.filename and first <= spot.line <= last


def _made_by_optimizer(birth: Birth, spot: Spot | None) -> bool:
    """State that a step allocated or a checkpoint brought, whoever else may write state by hand."""
    if birth.place.inner is not None:
        return True
    node = None if spot is None else spot.node
    called = node.func if isinstance(node, ast.Call) else None
    return isinstance(called, ast.Attribute) and called.attr in ("step", "load_state_dict")
