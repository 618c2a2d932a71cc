"""Method calls on tensors and on Python's containers."""

import ast
from typing import Any

from samedevice.lint import iteration, meet, tensors
from samedevice.lint.devices import CPU, CUDA, Dev, differ, same, symbol
from samedevice.lint.meet import Operand
from samedevice.lint.run import Frame, Run
from samedevice.lint.state import element, join, leaves, options, tagged
from samedevice.lint.tensors import check, move, move_target, tensor_of
from samedevice.lint.values import (
    ARRAY,
    NONE,
    NUM,
    REST,
    UNKNOWN,
    Array,
    Const,
    Device,
    Dict,
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

Args = list[Value]
Kwargs = dict[str, Value]

IN_PLACE_EXCEPT = frozenset(("requires_grad_", "copy_", "detach_", "cpu_"))


def call_method(run: Run, method: Method, args: Args, kwargs: Kwargs, node: ast.Call, frame: Frame) -> Value:
    """Call a method that the analysis knows by name."""
    owner = method.owner
    if isinstance(owner, Tensor | Param):
        return tensor_method(run, owner, method.name, args, kwargs, node, frame)
    if isinstance(owner, Seq):
        return sequence_method(run, owner, method.name, args, kwargs, node, frame)
    if isinstance(owner, Dict):
        return dict_method(run, owner, method.name, args, kwargs, node, frame)
    if isinstance(owner, Array):
        if method.name in ("tolist", "item", "sum", "mean", "max", "min", "any", "all"):
            return ARRAY if method.name != "item" else NUM
        return ARRAY
    if isinstance(owner, Const | Num):
        return string_method(owner, method.name, args)
    if isinstance(owner, Instance):
        from samedevice.lint import builtin_objects

        return builtin_objects.call_method(run, owner, method.name, args, kwargs, node, frame)
    return UNKNOWN


def string_method(owner: Const | Num, name: str, args: Args) -> Value:
    if isinstance(owner, Const) and isinstance(owner.value, str):
        if name == "startswith" and args and isinstance(args[0], Const) and isinstance(args[0].value, str):
            return Const(owner.value.startswith(args[0].value))
        if name in ("lower", "upper", "strip") and not args:
            return Const(getattr(owner.value, name)(), owner.site, owner.default)
        if name == "split":
            if args and isinstance(args[0], Const) and isinstance(args[0].value, str) and args[0].value:
                return Seq("list", tuple(Const(p) for p in owner.value.split(args[0].value)))
            return Seq("list", (), NUM)
    if name == "split":
        return Seq("list", (), NUM)
    return NUM


def receiver(node: ast.AST) -> ast.AST | None:
    """The expression left of the method's dot."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.value
    return None


def argument_node(node: ast.AST, index: int, keyword: str | None = None) -> ast.AST | None:
    """The expression of an argument."""
    if isinstance(node, ast.Call):
        if keyword is not None:
            for k in node.keywords:
                if k.arg == keyword:
                    return k.value
            return None
        if index < len(node.args):
            return node.args[index]
    return None


def device_argument(run: Run, kwargs: Kwargs, frame: Frame) -> tuple[bool, Device | None]:
    """Whether `device=` is given (and not None), and which device it is if that is known."""
    value = kwargs.get("device")
    if value is None:
        return ("**" in kwargs), None
    if isinstance(value, Const) and value.value is None:
        return False, None
    known = [o for o in options(value) if not (isinstance(o, Const) and o.value is None)]
    devices = [tensors.device_value(option, frame) for option in known]
    first = devices[0] if devices else None
    if first is None or any(d is None or not same(d.dev, first.dev) for d in devices):
        return True, None
    return True, first


def with_device(run: Run, tensor: Tensor, kwargs: Kwargs, frame: Frame) -> Tensor:
    """The tensor of a following factory, where `device=` overrides."""
    given, device = device_argument(run, kwargs, frame)
    if given:
        tensor.dev = None if device is None else device.dev
        tensor.choice = device
        tensor.moved = None
    return tensor


def operands_of(
    run: Run, name: str, first: Value | None, args: Args, kwargs: Kwargs, node: ast.AST, method: bool = True
) -> list[Operand]:
    """The tensors among the arguments of a call that are operands of its device check.

    `first` is the receiver of a method, or the first argument of a function, which `args` then lacks.
    """
    found: list[Operand] = []
    skip = api.NO_OPERANDS.get(name, frozenset())
    shift = 0
    offset = 0 if method or first is None else 1
    if first is not None:
        tensor = tensor_of(first)
        if tensor is not None:
            found.append(Operand(tensor, first, receiver(node) if method else argument_node(node, 0), "self"))
        shift = 1
    for index, arg in enumerate(args):
        if str(index + shift) in skip:
            continue
        for option, tags in tagged(arg):
            tensor = tensor_of(option)
            if tensor is not None:
                found.append(Operand(tensor, option, argument_node(node, index + offset), "", tags))
    for key, arg in kwargs.items():
        if key in skip or key == "generator":
            continue
        for option, tags in tagged(arg):
            tensor = tensor_of(option)
            if tensor is not None:
                found.append(Operand(tensor, option, argument_node(node, 0, key), key, tags))
    return found


def tensor_method(
    run: Run, owner: Tensor | Param, name: str, args: Args, kwargs: Kwargs, node: ast.Call, frame: Frame
) -> Value:
    """`tensor.name(...)`."""
    tensor = tensor_of(owner)
    assert tensor is not None
    if name == "to":
        return to(run, owner, tensor, args, kwargs, node, frame)
    if name == "cuda":
        target = args[0] if args else kwargs.get("device")
        return move(run, tensor, cuda_device(target, node, frame), node, frame, "cuda")
    if name == "cpu":
        return move(run, tensor, Device(CPU, frame.site(node)), node, frame, "cpu")
    if name in ("numpy", "__array__"):
        if surely_gpu(tensor) and "force" not in kwargs:
            meet.simple(run, "numpy", "numpy", node, frame, Operand(tensor, owner, receiver(node)))
        return ARRAY
    if name == "pin_memory":
        if tensor.dev is not None and tensor.dev.is_gpu:
            meet.simple(run, "pin", "pin_memory", node, frame, Operand(tensor, owner, receiver(node)))
        return tensor.derive(tensor.rank)
    if name in api.NEW_METHODS:
        rank = {
            "new_full": tensors.shape_rank(args[:1], kwargs),
            "new_tensor": tensors.data_rank(args[0] if args else None),
        }.get(name, tensors.shape_rank(args, kwargs))
        made = Tensor(tensor.dev, rank, run.event("derived", node, frame, name))
        made.likely = tensor.likely
        if isinstance(owner, Param):
            made.birth = run.event("following", node, frame, name, extra=owner)
        elif tensor.dev is not None and tensor.dev.is_cpu:
            made.birth, made.batch, made.held = tensor.birth, tensor.batch, tensor.held
            made.moved, made.choice = tensor.moved, tensor.choice
        return with_device(run, made, kwargs, frame)
    if name in ("type_as", "to_like"):
        other = tensor_of(args[0]) if args else None
        like = None if other is None or other.dev is None else Device(other.dev, source=other)
        return move(run, tensor, like, node, frame, name)
    if name in ("type",):
        if args and isinstance(args[0], Const) and isinstance(args[0].value, str):
            return move(run, tensor, Device(CUDA if "cuda" in args[0].value else CPU), node, frame, name)
        return tensor.derive(tensor.rank)
    if name in ("random_", "normal_", "uniform_", "bernoulli_", "exponential_"):
        generator_check(run, kwargs.get("generator"), tensor.dev, node, frame)
        return owner
    if name == "backward":
        return NONE
    return follow(run, name, owner, args, kwargs, node, frame, method=True)


def surely_gpu(tensor: Tensor) -> bool:
    """Whether a tensor is on an accelerator, or was moved by hand to what stands for one."""
    dev = tensor.dev
    return dev is not None and (dev.is_gpu or (dev.is_symbol and dev.aware and tensor.moved is not None))


def follow(
    run: Run, name: str, first: Value, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame, method: bool
) -> Value:
    """An operation of the table whose result follows its operands; `first` is the receiver of a method."""
    tensor = tensor_of(first)
    base = name[:-1] if name.endswith("_") and not name.endswith("__") else name
    in_place = base != name
    if name in api.TO_HOST and base not in api.STRICT:
        return NUM
    family = None
    if base in api.ITERATOR or (base in ("max", "min") and args and tensor_of(args[0]) is not None):
        family = "iterator"
    elif base in api.STRICT or base in api.STRICT_ITERATOR:
        family = "strict"
    if base in ("clamp", "clip") and any(isinstance(a, Const | Num) for a in (*args, *kwargs.values())):
        # with one number among the bounds the other is read as a number too
        family = None
    if family is not None:
        found = operands_of(run, base, first, args, kwargs, node, method)
        if len(found) > 1:
            text = f"Tensor.{name}" if method else f"torch.{name}"
            result = check(run, family, node, text, found, frame, in_place)
            if in_place:
                return first
            assert isinstance(result, Tensor)
            if base in (
                "matmul",
                "mm",
                "bmm",
                "einsum",
                "gather",
                "index_select",
                "masked_select",
                "take",
                "mv",
            ):
                result.rank = -1 if base != "einsum" else None
            if base in (
                "gather",
                "index_select",
                "index_add",
                "scatter",
                "scatter_add",
                "masked_fill",
                "scatter_reduce",
            ):
                result = result if tensor is None else tensor.derive(tensor.rank)
            if base in api.TO_HOST:
                return NUM
            return result
    if tensor is None:
        return Unknown()
    if name in api.TO_HOST:
        return NUM
    if in_place and name not in IN_PLACE_EXCEPT:
        return first
    if name == "copy_":
        return first
    if name in ("requires_grad_", "detach_"):
        return first
    rank = result_rank(name, tensor, args, kwargs)
    known = (
        base in api.SAME_RANK or base in api.AT_LEAST_ONE or base in api.REDUCTIONS or base in api.FOLLOWING
        or base in api.ITERATOR or base in api.STRICT or base in api.STRICT_ITERATOR
    )  # fmt: skip
    if not known:
        return Unknown()
    result = tensor.derive(rank)
    if (
        base in api.ITERATOR
        and any(isinstance(a, Unknown) for a in args)
        and tensor.dev is not None
        and tensor.dev.is_cpu
    ):
        result.dev = tensor.dev if tensor.rank not in (0, None) else None
    if base in ("chunk", "split", "unbind", "tensor_split", "hsplit", "vsplit", "dsplit"):
        return Seq(
            "tuple", (), tensor.derive(tensor.rank if base != "unbind" else tensors.lower_rank(tensor.rank))
        )
    if base == "unflatten" or base == "flatten":
        result.rank = -1
    return result


def result_rank(name: str, tensor: Tensor, args: Args, kwargs: Kwargs) -> Rank:
    """The rank of the result of a one-tensor operation."""
    if name in api.AT_LEAST_ONE:
        return -1
    if name in api.REDUCTIONS:
        if not args and "dim" not in kwargs and "axis" not in kwargs:
            return 0
        if tensor.rank is not None and tensor.rank > 1 and "keepdim" not in kwargs:
            dim = args[0] if args else kwargs.get("dim", kwargs.get("axis"))
            if isinstance(dim, Const):
                return tensor.rank - 1
        return -1 if isinstance(kwargs.get("keepdim"), Const) and kwargs["keepdim"].value else None  # type: ignore[attr-defined]
    if name in ("select",):
        return tensors.lower_rank(tensor.rank)
    if name in api.FOLLOWING:
        return None
    return tensor.rank


def cuda_device(target: Value | None, node: ast.AST, frame: Frame) -> Device:
    """Where `.cuda(target)` moves."""
    if target is None or (isinstance(target, Const) and target.value is None):
        return Device(CUDA, frame.site(node))
    device = tensors.device_value(target, frame)
    if device is not None:
        return device
    return Device(Dev("?", None, target, "the GPU"), frame.site(node))


def to(
    run: Run, owner: Value, tensor: Tensor, args: Args, kwargs: Kwargs, node: ast.Call, frame: Frame
) -> Value:
    """`tensor.to(...)`."""
    if args and tensor_of(args[0]) is not None:
        other = tensor_of(args[0])
        assert other is not None
        device = None if other.dev is None else Device(other.dev, source=other)
        if other.dev is None:
            device = Device(symbol(other, "its device"))
        return move(run, tensor, device, node, frame, "to")
    kind, device = move_target(args, kwargs, frame)
    if kind == "dtype":
        return tensor.derive(tensor.rank)
    return move(run, tensor, device, node, frame, "to")


def generator_check(run: Run, generator: Value | None, dev: Dev | None, node: ast.AST, frame: Frame) -> None:
    """A generator must be of the device type that it fills."""
    if not isinstance(generator, Instance) or generator.builtin != "torch.Generator" or dev is None:
        return
    own = generator.cells.get("#device")
    if not isinstance(own, Device) or not differ(own.dev, dev) or own.dev.type == dev.type:
        return
    meet.simple(
        run,
        "generator",
        "generator",
        node,
        frame,
        None,
        generator=generator,
        wanted=dev,
        own=own.dev,
        culprit=generator.birth,
    )


def sequence_method(
    run: Run, owner: Seq, name: str, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame
) -> Value:
    """A method of a list, tuple or set."""
    if name in ("append", "add", "appendleft") and args:
        add_item(run, owner, args[0], node, frame)
        return NONE
    if name == "insert" and len(args) == 2:
        tensors.note_stored(run, args[1], owner, node, frame)
        rest = owner.rest
        value = args[1]
        for item in owner.items:
            value = join(value, item, True)
        run.trail.write(owner.cells, "rest", value if rest is None else join(rest, value, True))
        run.trail.write(owner.cells, "items", ())
        return NONE
    if name in ("extend", "update", "__iadd__") and args:
        known, rest = iteration.items_of(run, args[0], node, frame)
        if rest is None and len(owner.items) + len(known) <= 16 and owner.rest is None:
            run.trail.write(owner.cells, "items", (*owner.items, *known))
        else:
            for item in known:
                add_item(run, owner, item, node, frame)
            if rest is not None:
                old = owner.rest
                run.trail.write(owner.cells, "rest", rest if old is None else join(old, rest, True))
        return NONE
    if name == "clear":
        run.trail.write(owner.cells, "items", ())
        run.trail.write(owner.cells, "rest", None)
        return NONE
    if name == "pop":
        if owner.items and owner.rest is None and not args:
            last = owner.items[-1]
            run.trail.write(owner.cells, "items", owner.items[:-1])
            return last
        return element(owner)
    if name == "popleft":
        return element(owner)
    if name in ("copy", "__iter__"):
        return Seq(owner.kind, owner.items, owner.rest)
    if name in ("index", "count"):
        return NUM
    if name in ("sort", "reverse", "remove", "discard"):
        return NONE
    if name == "_replace":
        return owner
    return UNKNOWN


def add_item(run: Run, owner: Seq, value: Value, node: ast.AST, frame: Frame) -> None:
    """Append one item."""
    tensors.note_stored(run, value, owner, node, frame)
    if owner.rest is None and len(owner.items) < 8:
        run.trail.write(owner.cells, "items", (*owner.items, value))
    else:
        rest = owner.rest
        run.trail.write(owner.cells, "rest", value if rest is None else join(rest, value, True))


def dict_method(
    run: Run, owner: Dict, name: str, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame
) -> Value:
    """A method of a dict."""
    if name in ("items", "values", "keys"):
        pairs: list[Value] = []
        rest: Value | None = None
        for key, value in owner.cells.items():
            shown: Value = NUM if key is REST else (Const(key) if not isinstance(key, Value) else key)
            item: Value = {"items": Seq("tuple", (shown, value)), "values": value, "keys": shown}[name]
            if key is REST:
                rest = item
            else:
                pairs.append(item)
        return Seq("list", tuple(pairs), rest)
    if name in ("get", "pop", "setdefault") and args:
        key_value = args[0].value if isinstance(args[0], Const) else None
        found: Value | None = owner.cells.get(key_value) if key_value is not None else element(owner)
        if found is None:
            found = owner.cells.get(REST)
        if name == "pop" and key_value is not None:
            run.trail.erase(owner.cells, key_value)
        if found is None:
            if name == "setdefault" and len(args) > 1:
                run.trail.write(owner.cells, key_value, args[1])
            return args[1] if len(args) > 1 else NONE
        return found
    if name == "update":
        source: Any = args[0] if args else None
        if isinstance(source, Dict):
            for key, value in source.cells.items():
                run.trail.write(owner.cells, key, value)
        elif source is not None:
            run.trail.write(owner.cells, REST, Unknown())
        for key, value in kwargs.items():
            if key not in ("*", "**"):
                run.trail.write(owner.cells, key, value)
        return NONE
    if name == "copy":
        copy = Dict()
        copy.cells.update(owner.cells)
        copy.birth = owner.birth
        return copy
    if name == "to":
        # BatchEncoding and the like are dicts with `to`; a plain dict has none
        return Unknown()
    if name == "clear":
        for key in list(owner.cells):
            run.trail.erase(owner.cells, key)
        return NONE
    return UNKNOWN


__all__ = ["call_method", "device_argument", "leaves", "operands_of", "with_device"]
