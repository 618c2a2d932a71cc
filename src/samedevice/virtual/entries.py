"""How data came into the program's functions: the loop, assignment or call that gave it a name."""

import ast
from types import FrameType
from typing import Any

from samedevice.model.scene import Action, Entry
from samedevice.program import bindings as b
from samedevice.program.frames import (
    in_loop,
    scope_of,
    spot_of,
    statement_of,
    statement_on_line,
    text_of,
    tree_of,
)
from samedevice.program.origins import receiver
from samedevice.program.owners import Seat
from samedevice.program.values import evaluate_in, is_tensor
from samedevice.virtual.holdings import Holdings, is_data
from samedevice.virtual.steps import step_at, step_of_statement
from samedevice.virtual.tags import tag_of


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
    first = _before_recomputed(reaching[0], scope, name, filename)
    how, source, loader = _how(first, frame, scope)
    bound = None
    if first.how != "parameter":
        bound = step_of_statement(first.node, filename, Action.ASSIGNED, first.how)
    beside = _moved_beside(holdings, first, name, seat, frame)
    return Entry(seat.path, used, bound, how, source, loader, beside, frame.f_code.co_name)


def _before_recomputed(binding: b.Binding, scope: Any, name: str, filename: str) -> b.Binding:
    """The binding behind those that compute a name anew from itself: `y = one_hot(y, 10)`."""
    while binding.how == "assign" and binding.whole and name in names_in(binding.value):
        earlier = b.reaching(scope, name, binding.line, filename)
        if not earlier or earlier[0].line >= binding.line:
            break
        binding = earlier[0]
    return binding


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


def names_in(node: ast.AST | None) -> set[str]:
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
        if other.parent is not None and is_record(other.parent.value):
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


def is_record(value: Any) -> bool:
    return isinstance(value, (dict, list, tuple)) or is_data(value)
