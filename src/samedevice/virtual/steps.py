"""What a run recorded, told in the words of scenes: births, moves and other events as `Step`s."""

import ast
from collections.abc import Iterable
from dataclasses import replace
from types import FrameType
from typing import Any

from samedevice.model.diagnostic import Location
from samedevice.model.scene import Action, Frame, Step
from samedevice.program.bindings import method_of
from samedevice.program.files import PACKAGE, kind_of, package_of, shown
from samedevice.program.frames import Spot, class_of, location_of, spot_of, statement_of, text_of
from samedevice.virtual.places import Place, Trail
from samedevice.virtual.provenance import Birth, Happened, ModuleMade, ModuleMoved
from samedevice.virtual.tags import device_name


def spot_of_place(place: Place) -> Spot | None:
    """The user's line of a place, or the package's when no user code was running."""
    if place.code is not None:
        return Spot(place.code, place.lasti)
    return None if place.inner is None else Spot(place.inner, place.inner_lasti)


def frame_fact(spot: Spot) -> Frame:
    """A frame as scenes know it."""
    statement = spot.statement
    return Frame(
        spot.location,
        spot.function,
        spot.class_name,
        package_of(spot.filename) if kind_of(spot.filename) == PACKAGE else None,
        None if statement is None or hasattr(statement, "body") else text_of(statement, spot.filename),
    )


def frames_of_trail(trail: Trail) -> tuple[Frame, ...]:
    """The recorded stack of an event, outermost first."""
    return tuple(frame_fact(Spot(code, lasti)) for code, lasti in trail)


def frames_of_stack(frames: Iterable[FrameType]) -> tuple[Frame, ...]:
    """Live frames as scenes know them."""
    return tuple(frame_fact(spot_of(frame)) for frame in frames)


def expression_at(spot: Spot) -> str | None:
    """Source text of the expression that ran."""
    node = spot.node
    if node is None or isinstance(node, ast.stmt):
        return None
    return text_of(node, spot.filename)


def step_at(
    spot: Spot | None,
    action: Action,
    function: str,
    device: str | None = None,
    order: int = 0,
    trail: tuple[Frame, ...] = (),
    explicit: bool | None = None,
    package: str | None = None,
) -> Step:
    """A step at a point of execution."""
    return Step(
        action,
        function,
        None if spot is None else spot.location,
        device,
        explicit,
        None if spot is None else expression_at(spot),
        None if spot is None else spot.function,
        None if spot is None else spot.class_name,
        package,
        trail,
        order,
    )


def step_of_birth(birth: Birth) -> Step:
    """The birth of a storage as a step."""
    inner = birth.place.inner
    step = step_at(
        spot_of_place(birth.place),
        birth.action,
        birth.function,
        device_name(birth.device),
        birth.seq,
        explicit=birth.explicit_device,
        package=birth.place.package,
    )
    return step if inner is None else replace(step, inside=line_only(Spot(inner, birth.place.inner_lasti)))


def step_of_event(event: ModuleMoved | ModuleMade | Happened) -> Step:
    """A move or construction of a module, or another event, as a step."""
    spot = spot_of_place(event.place)
    trail = frames_of_trail(event.trail)
    if isinstance(event, ModuleMoved):
        return step_at(spot, Action.MOVED, event.function, device_name(event.device), event.seq, trail)
    if isinstance(event, ModuleMade):
        return step_at(spot, Action.CREATED, event.class_name, None, event.seq, trail)
    return step_at(spot, Action.COPIED, event.what, None, event.seq, trail)


def step_of_statement(node: ast.AST, filename: str, action: Action, function: str) -> Step:
    """A statement found by reading the source."""
    statement = statement_of(node) or node
    return _read(statement, filename, action, function, _short(statement, filename))


def step_of_expression(node: ast.AST, filename: str, action: Action, function: str) -> Step:
    """An expression found by reading the source."""
    return _read(node, filename, action, function, text_of(node, filename))


def _read(node: ast.AST, filename: str, action: Action, function: str, text: str) -> Step:
    method = method_of(node)
    definition = None if method is None else class_of(method)
    return Step(
        action,
        function,
        location_of(node, filename),
        expression=text,
        function_name="<module>" if method is None else method.name,
        class_name=None if definition is None else definition.name,
    )


def _short(statement: ast.AST, filename: str) -> str:
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        return f"for {text_of(statement.target, filename)} in {text_of(statement.iter, filename)}"
    if hasattr(statement, "body"):
        return ast.unparse(statement).partition("\n")[0]
    return text_of(statement, filename)


def line_only(spot: Spot) -> Location:
    """The spot's line without columns."""
    return Location(shown(spot.filename), spot.line)


def alive(reference: Any) -> Any:
    """What a weak reference refers to, None when it is gone."""
    return None if reference is None else reference()
