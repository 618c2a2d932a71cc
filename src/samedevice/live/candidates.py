"""The operands of a failing call, as the user wrote them, with their live values where there are any."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from samedevice.live.expressions import makes_library_module
from samedevice.live.origins import Tracer, Where
from samedevice.live.points import Point
from samedevice.program.frames import parent_of, statement_of
from samedevice.program.values import MISSING, evaluate_in, is_module, is_tensor

#: names that functions are reached by; not tensors
LIBRARIES = ("torch", "F", "nn", "np", "numpy", "math", "functional", "th")


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """One operand.

    Attributes:
        node: the expression; for a module's parameters the module.
        value: live tensor or module, MISSING when it is not known.
        is_state: it stands for the parameters and buffers of the module `node`.
        device: where it is seen to lie, None when that is not known.
        side: number of the operand in the call.
    """

    node: ast.expr
    value: Any = MISSING
    is_state: bool = False
    device: str | None = None
    side: int = 0


def candidates(point: Point, tracer: Tracer, inner_module: Any = MISSING) -> list[Candidate]:
    """The operands of the call at a point, in order; `inner_module` is the layer in which it failed."""
    node = point.node
    if node is None:
        node = _only_expression(point)
    if node is None:
        return []
    found: list[Candidate] = []
    for number, (expression, is_state) in enumerate(_parts(node, point, tracer)):
        value = evaluate_in(expression, point.frame) if point.frame is not None else MISSING
        device: str | None = None
        if is_state:
            module = inner_module if inner_module is not MISSING else value
            device = module_device(module, tracer)
        elif is_tensor(value):
            device = tracer.device_of(value)
        elif value is not MISSING and not isinstance(value, (list, tuple, dict)):
            continue
        found.append(Candidate(expression, value, is_state, device, number))
    return found


def _only_expression(point: Point) -> ast.AST | None:
    """The expression of a statement, when it is not known which part of it failed."""
    statement = point.statement
    if (
        isinstance(statement, (ast.Return, ast.Expr, ast.Assign, ast.AnnAssign))
        and statement.value is not None
    ):
        return statement.value
    if isinstance(statement, ast.AugAssign):
        return statement
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        return statement.iter
    return None


def _parts(node: ast.AST, point: Point, tracer: Tracer) -> Iterator[tuple[ast.expr, bool]]:
    if isinstance(node, ast.AugAssign):
        yield node.target, False
        yield node.value, False
    elif isinstance(node, ast.BinOp):
        yield node.left, False
        yield node.right, False
    elif isinstance(node, ast.Compare):
        yield node.left, False
        for other in node.comparators:
            yield other, False
    elif isinstance(node, ast.Subscript):
        yield node.value, False
        yield from (
            (e, False) for e in (node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice])
        )
    elif isinstance(node, ast.Call):
        yield from _call_parts(node, point, tracer)
    elif isinstance(node, ast.expr):
        yield node, False
    elif isinstance(node, ast.stmt):
        statement = statement_of(node)
        value = getattr(statement, "value", None)
        if isinstance(value, ast.expr):
            yield value, False


def _call_parts(node: ast.Call, point: Point, tracer: Tracer) -> Iterator[tuple[ast.expr, bool]]:
    func = node.func
    where = Where(point.file, point.line, point)
    if is_module_call(node, where, tracer):
        for argument in _arguments(node):
            yield argument, False
        yield func, True
        return
    if isinstance(func, ast.Attribute) and tracer.sources.qualified(func, point.file) is None:
        root = func.value
        if not (isinstance(root, ast.Name) and root.id in LIBRARIES):
            yield root, False
    for argument in _arguments(node):
        yield argument, False


def _arguments(node: ast.Call) -> Iterator[ast.expr]:
    for argument in (
        *node.args,
        *(k.value for k in node.keywords if k.arg not in ("device", "dtype", "dim")),
    ):
        if isinstance(argument, ast.Starred):
            argument = argument.value
        if isinstance(argument, (ast.List, ast.Tuple)):
            yield from (e.value if isinstance(e, ast.Starred) else e for e in argument.elts)
        elif not isinstance(argument, ast.Constant):
            yield argument


def is_module_call(node: ast.Call, where: Where, tracer: Tracer) -> bool:
    """The call runs a module: its parameters take part."""
    if where.point is not None and where.point.frame is not None:
        value = evaluate_in(node.func, where.point.frame)
        if value is not MISSING:
            return is_module(value)
    if tracer.sources.qualified(node.func, where.file) is not None:
        return False
    return any(is_module_made(value, inner, tracer) for value, inner in tracer.definitions(node.func, where))


def is_module_made(node: ast.expr, where: Where, tracer: Tracer) -> bool:
    """The expression constructs a module (or a container of modules)."""
    if isinstance(node, (ast.List, ast.Tuple)):
        return any(is_module_made(e, where, tracer) for e in node.elts)
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        return is_module_made(node.elt, where, tracer)
    if not isinstance(node, ast.Call):
        return False
    name = tracer.sources.qualified(node.func, where.file)
    if name is not None:
        return makes_library_module(name)
    found = tracer.sources.definition(node.func, where.file)
    return (
        found is not None and isinstance(found.node, ast.ClassDef) and tracer.sources.is_module_class(found)
    )


def module_device(module: Any, tracer: Tracer) -> str | None:
    """Where the parameters (else the buffers) of a live module lie, None when mixed or unknown."""
    if not is_module(module):
        return None
    devices = {tracer.device_of(p) for p in module.parameters()} or {
        tracer.device_of(t) for t in module.buffers()
    }
    return devices.pop() if len(devices) == 1 else None


def enclosing_call(node: ast.AST) -> ast.Call | None:
    """The call of which the node is the function or an argument."""
    above = parent_of(node)
    return above if isinstance(above, ast.Call) else None
