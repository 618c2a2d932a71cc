"""Tensors of a failing call as `Operand`s: what the user wrote, who holds them, how they came to be."""

import ast
import re
from dataclasses import replace
from types import FrameType, ModuleType
from typing import Any

from samedevice.model.scene import Action, Decision, Entry, Holder, Operand, Relative, Step
from samedevice.program import bindings as b
from samedevice.program.discards import is_thrown_away, unused_moves_of
from samedevice.program.frames import (
    Spot,
    in_loop,
    location_of,
    scope_of,
    spot_of,
    statement_of,
    statement_on_line,
    text_of,
    tree_of,
)
from samedevice.program.origins import SELF_METHODS, Turn, Where, receiver, trace_device
from samedevice.program.owners import Seat
from samedevice.program.values import MISSING, evaluate_in, is_module, is_tensor
from samedevice.virtual.holdings import Holdings, _is_data, keeping
from samedevice.virtual.provenance import Birth, ModuleMoved
from samedevice.virtual.steps import (
    spot_of_place,
    step_at,
    step_of_birth,
    step_of_event,
    step_of_expression,
    step_of_statement,
)
from samedevice.virtual.tags import Tag, device_index, device_name, tag_of

STATE = (Holder.PARAMETER, Holder.BUFFER, Holder.OPTIMIZER_STATE)


class OperandReader:
    """Reads the operands of one failing call."""

    def __init__(self, holdings: Holdings, call: ast.AST | None, frame: FrameType | None) -> None:
        self.holdings = holdings
        self.call = call
        self.frame = frame
        self.written = self._written()

    # -- what the user wrote -----------------------------------------------------------------------

    def _written(self) -> list[tuple[ast.expr, Any]]:
        """Subexpressions of the running call whose values are known, with them, outermost first."""
        if self.call is None or self.frame is None:
            return []
        found: list[tuple[ast.expr, Any]] = []
        for node in ast.walk(self.call):
            if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
                value = evaluate_in(node, self.frame)
                if is_tensor(value) or is_module(value):
                    found.append((node, value))
        return found

    def expression(self, tensor: Any, tag: Tag | None, number: int, count: int) -> str | None:
        """The source text of the operand at the failing call."""
        if self.frame is None or self.call is None:
            return None
        filename = self.frame.f_code.co_filename
        seat = next(iter(self.holdings.seats_of(tag)), None)
        if seat is not None and seat.chain()[0].link is Holder.TEMPORARY:
            return None  # the weight of a module without a name
        for node, value in self.written:
            if value is tensor:
                return text_of(self._around(node), filename)
        for node, value in self.written:
            if is_tensor(value) and tag is not None and tag_of(value) is tag:
                return text_of(self._around(node), filename)
        for node, value in self.written:
            if is_module(value):
                for name, inner in (*value.named_parameters(), *value.named_buffers()):
                    if inner is tensor or (tag is not None and tag_of(inner) is tag):
                        return text_of(node, filename) + re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", f".{name}")
        return (
            self._born_here(tag, filename)
            or self._by_position(number, count, filename)
            or self._by_argument(number, count, filename)
        )

    def _born_here(self, tag: Tag | None, filename: str) -> str | None:
        """The part of the failing call that made the operand."""
        birth = None if tag is None else tag.birth
        if (
            birth is None
            or self.frame is None
            or self.call is None
            or birth.place.code is not self.frame.f_code
        ):
            return None
        spot = spot_of_place(birth.place)
        node = None if spot is None else spot.node
        if (
            not isinstance(node, ast.expr)
            or node is self.call
            or not any(n is node for n in ast.walk(self.call))
        ):
            return None
        return text_of(self._around(node), filename)

    def _around(self, node: ast.expr) -> ast.expr:
        """`table` of `table[i].view(-1) + x` is `table[i].view(-1)`: the operand as it stands in the call."""
        call = self.call
        above: ast.AST | None = getattr(node, "parent", None)
        best = node
        while (
            above is not None
            and above is not call
            and isinstance(above, (ast.Subscript, ast.Attribute, ast.Call))
        ):
            if isinstance(above, ast.Call) and (
                not isinstance(above.func, ast.Attribute) or best is not above.func
            ):
                break
            if isinstance(above, ast.Subscript) and above.value is not best:
                break
            best = above
            above = getattr(above, "parent", None)
        if (
            isinstance(best, ast.Attribute)
            and isinstance(getattr(best, "parent", None), ast.Call)
            and best is not node
        ):
            return node
        return best if above is call or above is None else node

    def _by_position(self, number: int, count: int, filename: str) -> str | None:
        """The operand of a binary operation by its side, when nothing else tells."""
        call = self.call
        sides: list[ast.expr] = []
        if isinstance(call, ast.BinOp):
            sides = [call.left, call.right]
        elif isinstance(call, ast.AugAssign):
            sides = [call.target, call.value]
        elif isinstance(call, ast.Compare) and len(call.comparators) == 1:
            sides = [call.left, call.comparators[0]]
        elif isinstance(call, ast.Subscript):
            sides = [call.value, call.slice]
        if len(sides) == count == 2:
            return text_of(sides[number], filename)
        return None

    def _by_argument(self, number: int, count: int, filename: str) -> str | None:
        """The argument of a function call at the operand's place: `F.cross_entropy(out, y)`."""
        call = self.call
        if not isinstance(call, ast.Call) or not isinstance(call.func, (ast.Attribute, ast.Name)):
            return None
        if is_module(evaluate_in(call.func, self.frame)) or len(call.args) < count or count < 2:  # type: ignore[arg-type]
            return None
        base = call.func.value if isinstance(call.func, ast.Attribute) else None
        if base is not None and not _is_namespace(evaluate_in(base, self.frame), base):  # type: ignore[arg-type]
            return None
        argument = call.args[number]
        value = evaluate_in(argument, self.frame)  # type: ignore[arg-type]
        return text_of(argument, filename) if value is MISSING or is_tensor(value) else None

    # -- the operand -------------------------------------------------------------------------------

    def read(self, name: str, tensor: Any, device: int, number: int, count: int) -> Operand:
        """Everything known of one operand."""
        tag = tag_of(tensor)
        birth = None if tag is None else tag.birth
        seat = self._seat(tensor, tag)
        operand = self._operand(
            name, device, seat, birth, tag, self.expression(tensor, tag, number, count), tensor
        )
        owned = operand.holder in (*STATE, Holder.ATTRIBUTE)
        if birth is not None and not owned and birth.action is Action.DERIVED and birth.parents:
            root = self._root(birth)
            if root is not None and root.born is not None and root.born.location is not None:
                return replace(operand, root=root)
        return operand

    def _seat(self, tensor: Any, tag: Tag | None) -> Seat | None:
        seats = self.holdings.seats_of(tag)
        if seats and _owned(seats[0]):
            return seats[0]
        same = [s for s in seats if s.value is tensor]
        return next(iter(same or seats), None)

    def _root(self, birth: Birth) -> Operand | None:
        """The most telling root of a derived tensor."""
        best: tuple[int, Birth, Seat | None] | None = None
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
            if best is None or score < best[0]:
                best = (score, root, seat)
        if best is None:
            return None
        _, root, seat = best
        return self._operand("", root.device, seat, root, None, None, None if seat is None else seat.value)

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
        if seat is not None and holder in (Holder.PARAMETER, Holder.BUFFER) and host is not None:
            module = self.holdings.fact(host.value)
        elif seat is not None and holder is Holder.ATTRIBUTE and host is not None and is_module(host.value):
            module = self.holdings.fact(host.value)
            host_moves = tuple(
                step_of_event(m) for m in self.holdings.moves_of(host.value) if m.seq > _first_order(birth)
            )
        decision, placed = self._placing(birth, None if host is None else host.value, holder)
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
            discarded=self._discarded(birth),
            placed=placed,
            decision=decision,
            relatives=self._relatives(seat, birth),
            shared=self._shared(tag),
            stored_in=self._stored_in(seat, holder),
            host_made=self._host_made(seat, holder),
            memoized=_is_memoized(birth),
        )

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
            stores = b.state_bindings(b.user_files(), str(seat.key[1]))
            binding = stores[0] if stores else None
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
        if seat is not None and seat.chain():
            for other in self._neighbours(seat):
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

    def _neighbours(self, seat: Seat) -> list[Seat]:
        """Other tensors in the same record or container of data."""
        outer = seat.parent
        while outer is not None and outer.parent is not None and _is_record(outer.parent.value):
            outer = outer.parent
        if outer is None or not _is_record(outer.value):
            return []
        return [
            other
            for other in self.holdings.census.tensors
            if other is not seat and outer in other.chain()[:-1]
        ]

    # -- how it came into the program's functions --------------------------------------------------

    def _entry(self, birth: Birth | None, tag: Tag | None) -> Entry | None:
        seats = self.holdings.seats_of(tag) if tag is not None else []
        if not seats and birth is not None:
            seats = self.holdings.seats_of_birth(birth)
        named = [s for s in seats if s.frame >= 0 and _is_local(s)]
        if not named:
            return None
        outermost = min(s.frame for s in named)
        frame = self.holdings.frames[outermost]
        used = _names_in(spot_of(frame).node or spot_of(frame).statement)
        seat = min(
            (s for s in named if s.frame == outermost), key=lambda s: (s.chain()[0].key not in used, s.depth)
        )
        return read_entry(self.holdings, seat, frame)

    # -- moves -------------------------------------------------------------------------------------

    def _discarded(self, birth: Birth | None) -> Step | None:
        """A moved copy of the data that nobody kept."""
        if birth is None:
            return None
        moves = [
            move
            for at in self.holdings.session.tensor_moves.values()
            for move in at
            if move.source is birth
            and move.birth.device != birth.device
            and (move.place.code, move.place.lasti) not in self.holdings.module_move_places
        ]
        for move in reversed(moves):
            spot = spot_of_place(move.place)
            node = None if spot is None else spot.node
            if spot is not None and node is not None and is_thrown_away(node):
                return step_at(
                    spot, Action.DISCARDED_MOVE, move.function, device_name(move.birth.device), move.seq
                )
        if not moves:
            return None
        return self._discarded_by_name(
            birth, moves[-1].function, device_name(moves[-1].birth.device), moves[-1].seq
        )

    def _discarded_by_name(self, birth: Birth, function: str, device: str, order: int) -> Step | None:
        """`batch.to(device)` of a class of the user's own, whose result nobody took."""
        for seat in self.holdings.seats_of_birth(birth):
            if seat.frame < 0:
                continue
            frame = self.holdings.frames[seat.frame]
            name = str(seat.chain()[0].key)
            node = spot_of(frame).statement
            scope = None if node is None else scope_of(node)
            if node is None or scope is None or is_module(seat.chain()[0].value):
                continue
            for call in unused_moves_of(scope, name, node.lineno):
                if len(seat.chain()) > 1 or is_tensor(seat.value):
                    found = step_of_expression(
                        call, frame.f_code.co_filename, Action.DISCARDED_MOVE, function
                    )
                    return replace(found, device=device, order=order)
        return None

    def _placing(self, birth: Birth | None, host: Any, holder: Holder) -> tuple[Decision | None, Step | None]:
        """(where its device was decided, the call that put it there), when a call said so explicitly."""
        if birth is None:
            return None, None
        if holder in (Holder.PARAMETER, Holder.BUFFER) and host is not None:
            move = self.holdings.last_move(host)
            if move is not None and move.device == birth.device:
                spot = spot_of_place(move.place)
                return self._decision(spot, device_name(birth.device), move), step_of_event(move)
        if birth.action is Action.MOVED or (birth.action is Action.CREATED and birth.explicit_device):
            spot = spot_of_place(birth.place)
            return self._decision(spot, device_name(birth.device), None), step_of_birth(birth)
        return None, None

    def decision_of_move(self, event: ModuleMoved) -> Decision | None:
        """Where the device of a module's move was decided."""
        return self._decision(spot_of_place(event.place), device_name(event.device), event)

    def _decision(self, spot: Spot | None, device: str, event: ModuleMoved | None) -> Decision | None:
        node = None if spot is None else spot.node
        if spot is None or not isinstance(node, ast.Call):
            return None
        wanted = device_argument(node)
        if wanted is None:
            return None
        if wanted is node:  # `.cpu()` and `.cuda()` say it themselves
            return Decision("literal", location_of(wanted, spot.filename), text_of(wanted, spot.filename))
        live = self.holdings.live(spot.code)
        callers: tuple[Spot, ...] = ()
        if event is not None:
            callers = tuple(Spot(code, lasti) for code, lasti in event.trail[:-1])
        elif live is not None:
            callers = self.holdings.callers(live)
        if live is not None:
            where = Where(spot.filename, callers, live.f_locals, live.f_globals)
        else:
            instance = self.holdings.instance_for(spot)
            where = Where(spot.filename, callers, {} if instance is None else {"self": instance})
        turns = trace_device(wanted, where, device)
        return decision_of(turns)


def decision_of(turns: list[Turn]) -> Decision | None:
    """The end of the way back, with the way."""
    if not turns:
        return None
    last = turns[-1]
    steps = tuple(Step(Action.ASSIGNED, turn.how, turn.location, expression=turn.text) for turn in turns[:-1])
    how = last.how
    if how == "literal" and len(turns) > 1 and turns[-2].how in ("global", "assigned"):
        # A literal is decided where the statement around it stands.
        how = "global" if turns[-2].how == "global" else "literal"
        last = replace(last, text=turns[-2].text, location=turns[-2].location)
    name = last.name or next((t.name for t in reversed(turns[:-1]) if t.name), None)
    return Decision(how, last.location, last.text, name, last.function, last.default, steps)


def device_argument(call: ast.Call) -> ast.expr | None:
    """The device expression of a move or factory; the call itself for `.cpu()` and a bare `.cuda()`."""
    for keyword in call.keywords:
        if keyword.arg == "device":
            return keyword.value
    method = call.func.attr if isinstance(call.func, ast.Attribute) else None
    if method == "to" and call.args:
        return call.args[0]
    if method == "cuda":
        return call.args[0] if call.args else call
    if method == "cpu":
        return call
    return None


def read_entry(holdings: Holdings, seat: Seat, frame: FrameType) -> Entry | None:
    """How the data at `seat` got its name in `frame`."""
    filename = frame.f_code.co_filename
    spot = spot_of(frame)
    node: ast.AST | None = spot.node or spot.statement
    if node is None or tree_of(filename) is None:
        return None
    scope = scope_of(node)
    statement = statement_of(node) or statement_on_line(filename, spot.line)
    if scope is None or statement is None:
        return None
    name = str(seat.chain()[0].key)
    line = getattr(node, "lineno", statement.lineno)
    used = step_at(spot, Action.RECEIVED, "used")
    if not isinstance(node, ast.expr):
        used = step_of_statement(statement, filename, Action.RECEIVED, "used")
    reaching = b.reaching(scope, name, line, filename)
    if not reaching:
        return Entry(seat.path, used, function=frame.f_code.co_name)
    first = reaching[0]
    how, source, loader = _how(first, frame, scope)
    bound = None
    if first.how != "parameter":
        bound = step_of_statement(first.node, filename, Action.ASSIGNED, first.how)
    beside = _moved_beside(holdings, first, name, seat, frame)
    return Entry(seat.path, used, bound, how, source, loader, beside, frame.f_code.co_name)


def _how(binding: b.Binding, frame: FrameType, scope: Any) -> tuple[str, str | None, bool]:
    filename = frame.f_code.co_filename
    value = binding.value
    source = None if value is None else text_of(value, filename)
    if binding.how == "parameter":
        return "parameter", None, False
    if binding.how == "for":
        return "for", source, value is not None and _is_loader(value, frame)
    if value is None:
        return "other", source, False
    inner = receiver(value)
    if isinstance(inner, ast.Name):
        earlier = b.reaching(scope, inner.id, binding.line, filename)
        from_loop = bool(earlier) and earlier[0].how == "for"
        loader = from_loop and earlier[0].value is not None and _is_loader(earlier[0].value, frame)
        return ("unpack" if not binding.whole else "assign"), source, loader
    if not binding.whole:
        return "unpack", source, isinstance(inner, ast.Call) and _is_loader(inner, frame)
    if isinstance(inner, ast.Subscript) and is_tensor(evaluate_in(inner.value, frame)):
        return ("slice" if in_loop(binding.node) else "other"), source, False
    if isinstance(inner, (ast.Subscript, ast.Attribute)):
        return "item", source, False
    if isinstance(inner, ast.Call):
        loader = _is_loader(inner, frame)
        return ("item" if loader else "call"), source, loader
    return "other", source, False


def _is_namespace(value: Any, node: ast.expr) -> bool:
    """`F`, `torch`, `nn.functional`: what functions are taken from, not a tensor with methods."""
    return isinstance(value, ModuleType) or (
        value is MISSING and ast.unparse(node).split(".")[0] in ("torch", "nn", "F")
    )


def _names_in(node: ast.AST | None) -> set[str]:
    """The names that a node reads."""
    return set() if node is None else {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _is_loader(iterable: ast.expr, frame: FrameType) -> bool:
    """Whether the loop runs over a DataLoader (perhaps through `enumerate`, `tqdm`, `next`, `iter`)."""
    import torch

    for node in ast.walk(iterable):
        if isinstance(node, ast.Call):
            called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if called == "DataLoader":
                return True
        elif isinstance(node, (ast.Name, ast.Attribute)):
            value = evaluate_in(node, frame)
            if isinstance(value, torch.utils.data.DataLoader) or type(value).__name__.endswith(
                "DataLoaderIter"
            ):
                return True
    return False


def _moved_beside(
    holdings: Holdings, binding: b.Binding, name: str, seat: Seat, frame: FrameType
) -> tuple[str, ...]:
    """What came together with it and has been moved: names bound by the same statement, or items."""
    together: list[str] = []
    target = getattr(binding.node, "target", None)
    targets = getattr(binding.node, "targets", [target] if target is not None else [])
    for node in (n for t in targets for n in ast.walk(t)):
        if isinstance(node, ast.Name) and node.id != name:
            together.append(node.id)
    moved = []
    for other in together:
        value = frame.f_locals.get(other)
        tag = tag_of(value) if is_tensor(value) else None
        if tag is not None and tag.birth is not None and tag.birth.action is Action.MOVED and tag.device >= 0:
            moved.append(other)
        elif tag is not None and tag.birth is not None and tag.birth in holdings.moved_births:
            moved.append(other)  # handed on as `x.to(device)`
    if not moved:
        moved = _copies_of_neighbours(holdings, seat)
    return tuple(moved)


def _copies_of_neighbours(holdings: Holdings, seat: Seat) -> list[str]:
    """Names of moved copies of what lies in the same container."""
    parents = []
    own = tag_of(seat.value)
    for other in holdings.by_tag.get(id(own), []) if own is not None else [seat]:
        if other.parent is not None and _is_record(other.parent.value):
            parents.append(other.parent)
    found = []
    for parent in parents:
        for neighbour in holdings.census.tensors:
            if neighbour.parent is parent and neighbour.value is not seat.value:
                tag = tag_of(neighbour.value)
                birth = None if tag is None else tag.birth
                if birth is None:
                    continue
                copies = holdings.made_from.get(birth, ())
                found += [copy.path for copy in copies]
                if not copies and birth in holdings.moved_births:
                    found.append(neighbour.path)
    return list(dict.fromkeys(found))


def _holder(seat: Seat) -> Holder:
    """The seat's kind of place; what lies in a list of an object belongs to that object's attribute."""
    if seat.link is Holder.CONTAINER and seat.host is not None and not _is_data(seat.host.value):
        return Holder.ATTRIBUTE
    if seat.link is Holder.ATTRIBUTE and seat.host is not None and _is_data(seat.host.value):
        return Holder.CONTAINER
    return seat.link


def _owned(seat: Seat | None) -> bool:
    """Held by something with a life of its own: a module, an optimizer, an object."""
    return seat is not None and _holder(seat) in (*STATE, Holder.ATTRIBUTE)


def _is_local(seat: Seat) -> bool:
    """Reached from a variable through containers and records of data only."""
    chain = seat.chain()
    return all(_is_record(s.value) for s in chain[:-1])


def _is_record(value: Any) -> bool:
    return isinstance(value, (dict, list, tuple)) or _is_data(value)


def _copies(function: str) -> bool:
    """The function makes a copy of its one operand."""
    return function.rpartition(".")[2] in (
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


__all__ = ["SELF_METHODS", "OperandReader", "decision_of", "device_argument", "read_entry"]
