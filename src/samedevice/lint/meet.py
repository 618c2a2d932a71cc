"""What the interpreter found: places where devices meet that must not, kept until the rules name them."""

import ast
from typing import Any

from samedevice.lint.devices import Dev, parse_device, same
from samedevice.lint.run import Frame, Run
from samedevice.lint.values import (
    NO_TAGS,
    Const,
    Device,
    Event,
    Instance,
    Param,
    Site,
    Stack,
    Tags,
    Tensor,
    Value,
)
from samedevice.torch_facts import api

#: methods whose result is where their tensor is, as far as a fix needs to know
FOLLOWING = api.SAME_RANK | api.AT_LEAST_ONE | api.REDUCTIONS


class Operand:
    """One operand of a call: the tensor, the value that held it and its expression."""

    __slots__ = ("name", "node", "tags", "tensor", "value")

    def __init__(
        self, tensor: Tensor, value: Value, node: ast.AST | None, name: str = "", tags: Tags = NO_TAGS
    ) -> None:
        self.tags = tags
        self.tensor = tensor
        self.value = value
        self.node = node
        self.name = name


class Found:
    """One thing to report.

    Attributes:
        kind: "operands", "index", "host-only", "pin", "generator", "discarded", … as the rules know them.
        path: the calls that lead there, outermost first, then the place itself.
        stray: the operand out of place, `other` one that shows it.
        frames: the frames alive at that time, outermost first.
        anchor: an expression that gives the wanted device where the stray was made, if one is known.
    """

    __slots__ = (
        "alone",
        "anchor",
        "cause",
        "entry",
        "extra",
        "family",
        "in_place",
        "kind",
        "likely",
        "operator",
        "other",
        "owner",
        "path",
        "stray",
        "wanted",
    )

    def __init__(
        self, kind: str, operator: str, path: Stack, stray: Operand | None, other: Operand | None
    ) -> None:
        self.kind = kind
        self.operator = operator
        self.path = path
        self.stray = stray
        self.other = other
        self.family = "strict"
        self.in_place = False
        self.likely = False
        self.wanted: Dev | None = None
        self.anchor: str | None = None
        self.extra: dict[str, Any] = {}
        self.entry: str | None = None
        self.owner: Instance | None = None
        self.cause: Any = None
        self.alone = False

    @property
    def site(self) -> Site:
        return self.path[-1]


def record(run: Run, found: Found, key: Any) -> None:
    """Keep `found` unless it is known already."""
    if run.quiet or key in run.seen:
        return
    run.seen.add(key)
    found.entry = "shallow" if run.shallow else None
    from samedevice.lint.causes import classify

    found.alone = run.entry > 0
    found.cause = classify(run, found)
    if found.cause is not None and found.wanted is not None:
        name = device_at(run, found.cause.culprit, found.wanted)
        if name is not None:
            found.cause.facts["device"] = name
    run.meetings.append(found)


def path_to(frame: Frame, node: ast.AST) -> Stack:
    """The calls that lead to `node`, and `node`."""
    return (*frame.stack, Site(frame.file, node, frame.name))


def operands(
    run: Run, family: str, node: ast.AST, operator: str, clash: tuple[Operand, Operand], all_operands: list[Operand],
    frame: Frame, in_place: bool,
) -> None:  # fmt: skip
    """Two operands of one call on different devices."""
    stray, other = choose(clash[0], clash[1])
    if stray.tensor.maybe and stray.tensor.dev is not None and not stray.tensor.dev.is_cpu:
        return
    pair = [d for d in (stray.tensor.dev, other.tensor.dev) if d is not None and d.type == "cuda"]
    if run.current_chosen and len(pair) == 2 and any(d.index is None for d in pair):
        return
    found = Found("index" if family == "index" else "operands", operator, path_to(frame, node), stray, other)
    found.family = family
    found.in_place = in_place
    found.wanted = other.tensor.dev
    found.likely = stray.tensor.likely or other.tensor.likely
    birth = stray.tensor.birth
    key = (id(node), id(birth.site.node) if birth else None, str(stray.tensor.dev), str(other.tensor.dev))
    if key in run.seen:
        return
    found.owner = owner_of(stray)
    found.anchor = anchor(run, found, frame)
    record(run, found, key)


def choose(one: Operand, other: Operand) -> tuple[Operand, Operand]:
    """Which of two is out of place: the one on the CPU; of two GPUs the one placed by less."""
    a, b = one.tensor.dev, other.tensor.dev
    assert a is not None and b is not None
    if a.is_cpu:
        return one, other
    if b.is_cpu:
        return other, one
    if b.type == "replica":
        return one, other
    if a.type == "replica":
        return other, one
    if isinstance(one.value, Param) != isinstance(other.value, Param):
        return (other, one) if isinstance(one.value, Param) else (one, other)
    if weight(one) > weight(other):
        return other, one
    if weight(other) > weight(one):
        return one, other
    return other, one


def weight(operand: Operand) -> int:
    """How firmly an operand sits where it is: what a model computed stands above what was moved by hand."""
    tensor = operand.tensor
    if tensor.batch is not None or (tensor.birth is not None and tensor.birth.kind == "loaded"):
        return 0
    if tensor.birth is not None and tensor.birth.kind == "parameter":
        return 2
    return 1


def owner_of(operand: Operand) -> Instance | None:
    """The module that a parameter belongs to."""
    return operand.value.owner if isinstance(operand.value, Param) else None


def discarded_move(run: Run, statement: ast.Expr, original: Tensor, moved: Tensor, frame: Frame) -> None:
    """A moved copy thrown away."""
    call = statement.value
    assert isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
    found = Found(
        "discarded",
        call.func.attr,
        path_to(frame, statement),
        Operand(original, original, call.func.value),
        None,
    )
    found.wanted = moved.dev
    record(run, found, ("discarded", id(statement)))


def simple(
    run: Run,
    kind: str,
    operator: str,
    node: ast.AST,
    frame: Frame,
    stray: Operand | None = None,
    **extra: Any,
) -> Found:
    """A mistake that one operand alone shows."""
    found = Found(kind, operator, path_to(frame, node), stray, None)
    found.extra = extra
    found.wanted = extra.get("wanted")
    if stray is not None:
        found.owner = owner_of(stray)
        found.likely = stray.tensor.likely
    record(run, found, (kind, id(node), id(extra.get("culprit"))))
    return found


def anchor(run: Run, found: Found, frame: Frame) -> str | None:
    """An expression that gives the wanted device at the stray's birth: the nearest thing that is right."""
    stray = found.stray
    if stray is None or stray.tensor.birth is None or found.other is None:
        return None
    birth = stray.tensor.birth.site
    for alive in reversed(run.frames):
        if alive.file is not birth.file or alive.name != birth.function:
            continue
        if alive.func is not None and not contains(alive.func.node, birth.node):
            continue
        text = search(alive, found.wanted, birth.line)
        if text is None and alive is frame and found.other.node is not None:
            leaf = followed(found.other.node, alive, birth.line)
            text = f"{ast.unparse(leaf)}.device" if leaf is not None else None
        return text or named_globally(alive, found.wanted, birth.line)
    return None


def followed(node: ast.AST, frame: Frame, line: int) -> ast.AST | None:
    """The part of an operand that its device comes from, if it is a plain name bound before `line`."""
    if stable(node, frame, line):
        return node
    if isinstance(node, ast.BinOp):
        return followed(node.left, frame, line)
    if isinstance(node, ast.UnaryOp):
        return followed(node.operand, frame, line)
    if isinstance(node, ast.Subscript):
        return followed(node.value, frame, line)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in FOLLOWING:
        return followed(node.func.value, frame, line)
    return None


def device_at(run: Run, site: Site, wanted: Dev) -> str | None:
    """How a living function names the wanted device at one of its lines."""
    for alive in reversed(run.frames):
        if alive.file is not site.file or alive.name != site.function:
            continue
        if alive.func is None or contains(alive.func.node, site.node):
            return search(alive, wanted, site.line) or named_globally(alive, wanted, site.line)
    return None


def contains(outer: ast.AST, inner: ast.AST) -> bool:
    """Whether one node's text lies within the other's."""
    start, end = getattr(outer, "lineno", 0), getattr(outer, "end_lineno", 0)
    return bool(start <= getattr(inner, "lineno", 0) <= end)


def search(frame: Frame, wanted: Dev | None, line: int) -> str | None:
    """A local device, or the device of a local tensor, that is bound before `line`."""
    if wanted is None:
        return None
    parameters = arguments(frame)
    best: tuple[int, str] | None = None
    for name, value in frame.locals.items():
        if not isinstance(name, str) or not name.isidentifier():
            continue
        device = is_device(value, wanted)
        if not device and not (
            isinstance(value, Tensor) and value.dev is not None and same(value.dev, wanted)
        ):
            continue
        lines = stores(frame, name)
        if device and (bound_before(frame, name, line) or (name in parameters and not lines)):
            return name
        if device or frame.func is None:
            continue
        if name in parameters and not lines:
            best = max(best or (0, ""), (line, f"{name}.device"))
        elif name not in parameters and lines and max(lines) < line:
            best = max(best or (0, ""), (max(lines), f"{name}.device"))
    held = attribute_of_self(frame, wanted, parameters)
    return held or (best[1] if best is not None else None)


def attribute_of_self(frame: Frame, wanted: Dev, parameters: list[str]) -> str | None:
    """`self.device` and the like."""
    if not isinstance(frame.self_value, Instance) or "self" not in parameters:
        return None
    for name, value in frame.self_value.cells.items():
        if isinstance(name, str) and name.isidentifier() and is_device(value, wanted):
            return f"self.{name}"
    return None


def named_globally(frame: Frame, wanted: Dev | None, line: int) -> str | None:
    """A device at the top of the file."""
    if wanted is None or frame.func is None:
        return None
    for name, value in frame.module.env.items():
        if is_device(value, wanted):
            return name
    return None


def is_device(value: object, wanted: Dev) -> bool:
    """Whether a value names the wanted device."""
    if isinstance(value, Device):
        return same(value.dev, wanted)
    if isinstance(value, Const) and isinstance(value.value, str):
        dev = parse_device(value.value)
        return dev is not None and same(dev, wanted)
    return False


def arguments(frame: Frame) -> list[str]:
    """The parameter names of a frame's function."""
    if frame.func is None:
        return []
    a = frame.func.node.args
    return [x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs)]


def stores(frame: Frame, name: str) -> list[int]:
    """The lines at which a frame's code binds `name`."""
    root: ast.AST = frame.func.node if frame.func is not None else frame.file.parsed()
    return [
        n.lineno
        for n in ast.walk(root)
        if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store)
    ]


def bound_before(frame: Frame, name: str, line: int) -> bool:
    """Whether the only bindings of `name` stand before `line`."""
    lines = stores(frame, name)
    return bool(lines) and min(lines) < line


def rebound(frame: Frame, name: str) -> bool:
    """Whether a parameter is bound again."""
    return bool(stores(frame, name))


def stable(node: ast.AST, frame: Frame, line: int) -> bool:
    """Whether an expression is a plain name or attribute chain that is bound before `line`."""
    while isinstance(node, ast.Attribute):
        node = node.value
    if not isinstance(node, ast.Name):
        return False
    if node.id in ("self", "cls"):
        return True
    if node.id in arguments(frame):
        lines = stores(frame, node.id)
        return not lines or min(lines) < line
    return bound_before(frame, node.id, line)


__all__ = ["Event", "Found", "Operand", "operands", "record", "simple"]
