"""Tensors: attributes, operators, indexing, moves; which operands of one call must share a device."""

import ast

from samedevice.lint import meet
from samedevice.lint.devices import CPU, CUDA, Dev, differ, same, symbol
from samedevice.lint.meet import Operand
from samedevice.lint.run import Frame, Run
from samedevice.lint.state import conflict, device_of, options
from samedevice.lint.values import (
    NUM,
    UNKNOWN,
    Alts,
    Array,
    Const,
    Device,
    Dict,
    Dtype,
    Event,
    Instance,
    Method,
    Num,
    Param,
    Rank,
    Seq,
    Tensor,
    Unknown,
    Value,
)
from samedevice.torch_facts import api

DEVICE_NAMES = ("device", "dev", "gpu", "cuda", "rank", "local_rank")


def tensor_of(value: Value) -> Tensor | None:
    """The tensor that a value is."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, Param):
        return value.tensor
    return None


def result_of(value: Value, rank: Rank) -> Value:
    """A result on the device of `value`, of the same rank when `rank` is None."""
    tensor = tensor_of(value)
    return UNKNOWN if tensor is None else tensor.derive(tensor.rank if rank is None else rank)


def lower_rank(rank: Rank) -> Rank:
    """The rank after one integer index."""
    return rank - 1 if rank is not None and rank > 0 else None


def join_ranks(a: Rank, b: Rank) -> Rank:
    """The rank of a broadcast."""
    if a is None or b is None:
        known = a if b is None else b
        return known if known is not None and known != 0 else None
    return max(a, b) if a >= 0 and b >= 0 else -1


def device_value(value: Value, frame: Frame, strict: bool = False) -> Device | None:
    """The device that a value means as an argument, None if it means none or is unknown."""
    if isinstance(value, Device):
        return value
    if isinstance(value, Const):
        if isinstance(value.value, str):
            dev = device_of(value)
            return None if dev is None else Device(dev, value.site, value.default)
        if isinstance(value.value, int) and not isinstance(value.value, bool) and not strict:
            return Device(Dev("cuda", value.value), value.site, value.default)
        return None
    tensor = tensor_of(value)
    if tensor is not None:
        if tensor.maybe or strict:
            return None
        return Device(tensor.dev if tensor.dev is not None else symbol(tensor, "its device"))
    if isinstance(value, Unknown) and not strict and value is not UNKNOWN:
        last = value.name.rpartition(".")[2].lower().strip("_")
        if last in DEVICE_NAMES or "device" in last or last.endswith("_gpu"):
            return Device(symbol(value, value.name))
    return None


def move_target(args: list[Value], kwargs: dict[str, Value], frame: Frame) -> tuple[str, Device | None]:
    """What `.to(…)` was asked: ("device", where), ("dtype", None) or ("unknown", None)."""
    found = kwargs.get("device", kwargs.get("other"))
    if found is None:
        found = args[0] if args else None
    if found is None:
        return ("dtype" if "dtype" in kwargs else "unknown"), None
    if isinstance(found, Dtype):
        return "dtype", None
    if isinstance(found, Const) and found.value is None:
        return "dtype", None
    if isinstance(found, Unknown) and "dtype" in found.name.rpartition(".")[2].lower():
        return "dtype", None
    device = device_value(found, frame)
    return ("device", device) if device is not None else ("unknown", None)


def move(run: Run, tensor: Tensor, device: Device | None, node: ast.AST, frame: Frame, text: str) -> Tensor:
    """A copy of `tensor` on `device`."""
    if device is not None and device.source is not None and device.dev.is_cpu:
        followed = device.source.derive(tensor.rank)
        followed.likely = followed.likely or tensor.likely
        return followed
    moved = tensor.copy()
    moved.dev = None if device is None else device.dev
    moved.choice = device
    moved.moved = run.event("moved", node, frame, text, extra=tensor, device=device)
    moved.lost = None
    moved.missed = None
    moved.leaf = False
    moved.buffer = None
    moved.held = None
    return moved


def discarded(run: Run, statement: ast.Expr, value: Value, frame: Frame) -> None:
    """A statement that moves a tensor and throws the moved copy away."""
    for option in options(value):
        if (
            not isinstance(option, Tensor)
            or option.moved is None
            or option.moved.site.node is not statement.value
        ):
            continue
        original = option.moved.extra
        if not isinstance(original, Tensor) or original.maybe:
            continue
        if original.dev is not None and option.dev is not None and same(original.dev, option.dev):
            continue
        event = run.event("lost", statement, frame, ast.unparse(statement.value))
        if original.lost is None:
            original.lost = event
        meet.discarded_move(run, statement, original, option, frame)


def get_attribute(run: Run, owner: Tensor | Param, name: str, node: ast.AST, frame: Frame) -> Value:
    """`tensor.name`."""
    tensor = tensor_of(owner)
    assert tensor is not None
    if name == "device":
        if tensor.dev is None:
            return Device(symbol(tensor, _source(node)))
        return Device(tensor.dev, source=tensor)
    if name in ("data", "T", "mT", "H", "real", "imag", "grad"):
        result = tensor.derive(tensor.rank)
        result.leaf = name == "data"
        return result
    if name == "shape":
        return Num("shape")
    if name == "dtype":
        return Dtype("")
    if name in ("values", "indices"):
        # of a reduction's result; a sparse tensor has methods of that name, and calling the result gives it back
        return tensor.derive(None)
    if name in ("is_cuda", "is_cpu"):
        if tensor.dev is None or tensor.dev.is_symbol:
            return NUM
        return Const(tensor.dev.type == name[3:])
    if name in (
        "is_meta",
        "requires_grad",
        "is_leaf",
        "ndim",
        "itemsize",
        "nbytes",
        "is_sparse",
        "layout",
        "grad_fn",
    ):
        return NUM
    if tensor.maybe and name not in KNOWN_METHODS:
        return Unknown(name)
    return Method(owner, name)


def _source(node: ast.AST) -> str:
    try:
        return ast.unparse(node)
    except (ValueError, RecursionError):
        return ""


KNOWN_METHODS = (
    api.SAME_RANK | api.AT_LEAST_ONE | api.REDUCTIONS | api.FOLLOWING | api.TO_HOST | api.ITERATOR | api.STRICT
    | api.STRICT_ITERATOR | api.NEW_METHODS | frozenset(("to", "cuda", "cpu", "numpy", "type_as", "pin_memory", "backward"))
)  # fmt: skip


def operator(
    run: Run, node: ast.BinOp | ast.AugAssign | ast.Compare, left: Value, right: Value, left_node: ast.expr,
    right_node: ast.expr, frame: Frame, in_place: bool,
) -> Value:  # fmt: skip
    """A binary operator with a tensor among its operands."""
    a, b = tensor_of(left), tensor_of(right)
    matmul = isinstance(getattr(node, "op", None), ast.MatMult)
    if a is not None and b is not None:
        family = "strict" if matmul else "iterator"
        return check(
            run,
            family,
            node,
            operator_name(node),
            [Operand(a, left, left_node), Operand(b, right, right_node)],
            frame,
            in_place,
        )
    known = a if a is not None else b
    other = right if a is not None else left
    if known is None:
        return NUM
    if isinstance(other, Const | Num | Dtype | Device):
        return known.derive(known.rank)
    if isinstance(other, Unknown):
        result = known.derive(None if known.rank in (0, None) else -1)
        if known.dev is not None and known.dev.is_cpu and known.rank in (0, None):
            result.dev = None
        return result
    return Unknown()


def operator_name(node: ast.AST) -> str:
    """The operator as written."""
    symbols = {
        "Add": "+", "Sub": "-", "Mult": "*", "Div": "/", "FloorDiv": "//", "Mod": "%", "Pow": "**", "MatMult": "@",
        "BitAnd": "&", "BitOr": "|", "BitXor": "^", "Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">=", "Eq": "==", "NotEq": "!=",
    }  # fmt: skip
    op = node.ops[0] if isinstance(node, ast.Compare) else getattr(node, "op", None)
    text = symbols.get(type(op).__name__, "op")
    return text + "=" if isinstance(node, ast.AugAssign) else text


def check(
    run: Run,
    family: str,
    node: ast.AST,
    operator: str,
    operands: list[Operand],
    frame: Frame,
    in_place: bool = False,
) -> Value:
    """Report operands that do not share a device; the result, as if they had."""
    clash: tuple[Operand, Operand] | None = None
    for i, one in enumerate(operands):
        for other in operands[i + 1 :]:
            if not differ(one.tensor.dev, other.tensor.dev) or conflict(one.tags, other.tags):
                continue
            if family == "iterator" and exempt(one, other, in_place and i == 0):
                continue
            clash = clash or (one, other)
    if clash is not None:
        meet.operands(run, family, node, operator, clash, operands, frame, in_place)
    return combine(operands)


def exempt(one: Operand, other: Operand, in_place: bool) -> bool:
    """Whether one of two operands is, or may be, a 0-dim CPU tensor, which may mix."""
    for operand, is_target in ((one, in_place), (other, False)):
        dev = operand.tensor.dev
        if dev is not None and dev.is_cpu and operand.tensor.rank in (0, None) and not is_target:
            return True
        if is_target and operand.tensor.rank is None:
            return True
    return False


def combine(operands: list[Operand]) -> Tensor:
    """The result of an operation on several tensors: on their device, the accelerator's when they clash."""
    main = operands[0].tensor
    rank: Rank = operands[0].tensor.rank
    for operand in operands[1:]:
        other = operand.tensor
        rank = join_ranks(rank, other.rank)
        if prefer(other, main):
            main = other
    result = main.derive(rank)
    if any(o.tensor.dev is None for o in operands) and (
        main.dev is None or (main.dev.is_cpu and main.rank in (0, None))
    ):
        result.dev = None
    result.likely = any(o.tensor.likely for o in operands)
    result.maybe = False
    return result


def prefer(other: Tensor, main: Tensor) -> bool:
    """Whether `other` decides the result's device rather than `main`."""
    if main.dev is None:
        return other.dev is not None and (not other.dev.is_cpu or other.rank not in (0, None))
    return main.dev.is_cpu and other.dev is not None and not other.dev.is_cpu


def index(run: Run, owner: Tensor | Param, key: Value, node: ast.Subscript, frame: Frame) -> Value:
    """`tensor[key]`."""
    table = tensor_of(owner)
    assert table is not None
    keys = list(key.items) if isinstance(key, Seq) and key.kind == "tuple" and key.rest is None else [key]
    nodes = (
        node.slice.elts
        if isinstance(node.slice, ast.Tuple) and len(node.slice.elts) == len(keys)
        else [node.slice] * len(keys)
    )
    rank: Rank = table.rank
    fancy = False
    for part, part_node in zip(keys, nodes, strict=True):
        for option in options(part):
            tensor = tensor_of(option)
            if isinstance(option, Array) or (isinstance(option, Seq) and part is not key):
                fancy = True
            if tensor is None:
                continue
            if tensor.rank != 0:
                fancy = True
            bad = table.dev is not None and table.dev.is_cpu and tensor.rank not in (0, None)
            two = (
                table.dev is not None
                and tensor.dev is not None
                and table.dev.type == "cuda" == tensor.dev.type
                and tensor.rank not in (0, None)
            )
            if (bad or two) and differ(table.dev, tensor.dev):
                pair = (Operand(table, owner, node.value), Operand(tensor, option, part_node))
                meet.operands(run, "index", node, "indexing", pair, list(pair), frame, False)
    if isinstance(key, Num) and key.tag == "slice":
        return table.derive(table.rank if table.rank not in (None, 0) else -1)
    if fancy or isinstance(key, Seq):
        kinds = [k for k in keys if not (isinstance(k, Num) and k.tag == "slice")]
        if isinstance(key, Seq) and not fancy:
            simple = all(isinstance(k, Const) for k in kinds)
            if simple and any(
                isinstance(k, Const) and (k.value is None or k.value is Ellipsis) for k in kinds
            ):
                return table.derive(-1)
            if len(kinds) < len(keys):
                return table.derive(-1)
            return table.derive(rank - len(keys) if rank is not None and rank > len(keys) else None)
        return table.derive(-1)
    if isinstance(key, Const) and (key.value is None or key.value is Ellipsis):
        return table.derive(-1)
    if isinstance(key, Unknown | Alts):
        return table.derive(None)
    return table.derive(lower_rank(table.rank))


def store_index(
    run: Run, owner: Tensor | Param, key: Value, value: Value, target: ast.Subscript, frame: Frame
) -> None:
    """`tensor[key] = value`: a copy, unless the key has index tensors."""
    table, stored = tensor_of(owner), tensor_of(value)
    if table is None or stored is None or stored.rank in (0, None, 1):
        return
    keys = list(key.items) if isinstance(key, Seq) else [key]
    if any((t := tensor_of(k)) is not None and t.rank not in (0, None) for k in keys) and differ(
        table.dev, stored.dev
    ):
        pair = (Operand(table, owner, target.value), Operand(stored, value, None))
        meet.operands(run, "iterator", target, "indexed assignment", pair, list(pair), frame, True)


def note_stored(run: Run, value: Value, container: Value, node: ast.AST, frame: Frame) -> None:
    """Remember that a value went into a container."""
    tensor = tensor_of(value)
    if tensor is not None and tensor.held is None and isinstance(value, Tensor):
        value.held = run.event("container", node, frame, extra=container)
    if isinstance(value, Instance) and "#held" not in value.cells and isinstance(container, Seq | Dict):
        run.trail.write(value.cells, "#held", run.event("container", node, frame, extra=container))


def shape_rank(args: list[Value], kwargs: dict[str, Value]) -> Rank:
    """The rank that shape arguments give."""
    if "size" in kwargs:
        args = [kwargs["size"]]
    if "*" in kwargs:
        return -1
    if not args:
        return None
    if len(args) > 1:
        return len(args)
    only = args[0]
    if isinstance(only, Seq):
        return len(only.items) if only.rest is None else -1
    if isinstance(only, Const) or (isinstance(only, Num) and only.tag != "shape"):
        return 1
    if isinstance(only, Num):
        return -1
    return -1 if isinstance(only, Unknown) else None


def data_rank(value: Value | None) -> Rank:
    """The rank of a tensor made from Python data."""
    if value is None:
        return None
    if isinstance(value, Seq):
        if value.items:
            inner = data_rank(value.items[0])
            return None if inner is None else (inner + 1 if inner >= 0 else -1) if inner is not None else -1
        return -1
    if isinstance(value, Const):
        return 0 if isinstance(value.value, int | float | bool | complex) else None
    if isinstance(value, Array):
        return -1
    if isinstance(value, Num) and value.tag in ("", "gpus"):
        return 0
    return None


def host_values(value: Value) -> bool:
    """Whether a value surely holds no tensor."""
    if isinstance(value, Const | Num | Array):
        return True
    if isinstance(value, Seq):
        return all(host_values(v) for v in value.items) and (value.rest is None or host_values(value.rest))
    return False


__all__ = ["CPU", "CUDA", "Dict", "Event", "check", "combine", "operator", "tensor_of"]
