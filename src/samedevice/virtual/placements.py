"""Moves of a tensor: the one that put it where it is, who decided that, and the ones thrown away."""

import ast
from dataclasses import replace
from typing import Any

from samedevice.model.scene import Action, Decision, Holder, Step
from samedevice.program.discards import is_thrown_away, unused_moves_of
from samedevice.program.frames import Spot, location_of, scope_of, spot_of, text_of
from samedevice.program.origins import Turn, Where, trace_device
from samedevice.program.values import is_module, is_tensor
from samedevice.virtual.holdings import Holdings
from samedevice.virtual.provenance import Birth, ModuleMoved
from samedevice.virtual.steps import spot_of_place, step_at, step_of_birth, step_of_event, step_of_expression
from samedevice.virtual.tags import device_name


class Placements:
    """Answers questions about moves from what the session recorded and what the sources say."""

    def __init__(self, holdings: Holdings) -> None:
        self.holdings = holdings

    def discarded(self, birth: Birth | None) -> Step | None:
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

    def placing(self, birth: Birth | None, host: Any, holder: Holder) -> tuple[Decision | None, Step | None]:
        """(where its device was decided, the call that put it there), when a call said so explicitly."""
        if birth is None:
            return None, None
        derived = birth.action is Action.DERIVED and holder is Holder.ATTRIBUTE
        if derived and all(root.action is Action.MOVED for root in birth.roots):
            birth = birth.roots[-1]  # what is kept was computed from what a move put there
        if holder in (Holder.PARAMETER, Holder.BUFFER) and host is not None:
            move = self.holdings.last_move(host)
            if move is not None and move.device == birth.device:
                spot = spot_of_place(move.place)
                return self._decision(spot, device_name(birth.device), move), step_of_event(move)
        if birth.action is Action.MOVED or (birth.action is Action.CREATED and birth.explicit_device):
            spot = spot_of_place(birth.place)
            return self._decision(spot, device_name(birth.device), None), step_of_birth(birth)
        if birth.action is Action.CREATED and not is_module(host):
            return self._left_out(birth), None
        return None, None

    def _left_out(self, birth: Birth) -> Decision | None:
        """`torch.rand(…, device=device)` whose `device` is None, because a caller left it to that default."""
        spot = spot_of_place(birth.place)
        node = None if spot is None else spot.node
        wanted = device_argument(node) if isinstance(node, ast.Call) else None
        if wanted is None or isinstance(wanted, ast.Constant):
            return None
        decision = self._decision(spot, device_name(birth.device), None)
        return decision if decision is not None and decision.how == "omitted" else None

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
