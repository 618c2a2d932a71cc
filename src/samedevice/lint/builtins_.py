"""Python's builtins and the few functions of other libraries that the analysis follows."""

import ast
from typing import Any

from samedevice.lint import iteration, meet, modules
from samedevice.lint.meet import Operand
from samedevice.lint.run import Frame, Run
from samedevice.lint.state import element, join, options
from samedevice.lint.tensors import tensor_of
from samedevice.lint.values import (
    ARRAY,
    NONE,
    NUM,
    UNKNOWN,
    Array,
    Bound,
    Class,
    Const,
    Device,
    Dict,
    Ext,
    Func,
    Instance,
    Num,
    Param,
    Partial,
    Seq,
    Tensor,
    Unknown,
    Value,
)

Args = list[Value]
Kwargs = dict[str, Value]


def call(run: Run, name: str, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    """`name(...)` for a builtin."""
    handler = HANDLERS.get(name)
    if handler is not None:
        found: Value = handler(run, args, kwargs, node, frame)
        return found
    if name in (
        "int",
        "float",
        "str",
        "len",
        "repr",
        "round",
        "id",
        "hash",
        "ord",
        "chr",
        "callable",
        "hasattr",
        "open",
        "input",
        "divmod",
        "bytes",
    ):
        if (
            name in ("int", "str", "float")
            and args
            and isinstance(args[0], Const)
            and not isinstance(args[0].value, type(None))
        ):
            return converted(name, args[0])
        if name == "str" and args and isinstance(args[0], Device):
            return args[0]
        return NUM
    if name == "print":
        return NONE
    return Unknown()


def converted(name: str, value: Const) -> Value:
    try:
        return Const({"int": int, "str": str, "float": float}[name](value.value), value.site, value.default)
    except (TypeError, ValueError):
        return NUM


def pairs(run: Run, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    """`enumerate`."""
    if not args:
        return UNKNOWN
    known, rest = iteration.items_of(run, args[0], node, frame)
    start = kwargs.get("start", args[1] if len(args) > 1 else None)
    items = tuple(
        Seq("tuple", (NUM if start is not None else Const(i), item)) for i, item in enumerate(known)
    )
    return Seq("list", items, None if rest is None else Seq("tuple", (NUM, rest)))


def zipped(run: Run, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    """`zip`."""
    columns = [iteration.items_of(run, arg, node, frame) for arg in args]
    if not columns:
        return Seq("list")
    if all(rest is None for _, rest in columns):
        length = min(len(known) for known, _ in columns)
        return Seq(
            "list", tuple(Seq("tuple", tuple(known[i] for known, _ in columns)) for i in range(length))
        )
    cells = []
    for known, rest in columns:
        value: Value | None = rest
        for item in known:
            value = item if value is None else join(value, item, True)
        cells.append(value if value is not None else UNKNOWN)
    shortest = min((len(known) for known, rest in columns if rest is None), default=None)
    row = Seq("tuple", tuple(cells))
    if shortest is not None and shortest <= 6:
        return Seq("list", tuple(
            Seq("tuple", tuple(known[i] if i < len(known) else (rest if rest is not None else UNKNOWN) for known, rest in columns))
            for i in range(shortest)
        ))  # fmt: skip
    return Seq("list", (), row)


def ranged(run: Run, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    """`range`: small ones are unrolled."""
    numbers = [a.value for a in args if isinstance(a, Const) and isinstance(a.value, int)]
    if len(numbers) == len(args) and 1 <= len(args) <= 3 and (len(numbers) < 3 or numbers[2]):
        steps = range(*numbers)
        if len(steps) <= 4:
            return Seq("list", tuple(Const(i) for i in steps))
    return Seq("list", (), NUM)


def mapped(run: Run, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    """`map`."""
    from samedevice.lint import calls

    if len(args) < 2:
        return UNKNOWN
    known, rest = iteration.items_of(run, args[1], node, frame)
    if len(args) > 2:
        return Seq("list", (), Unknown())
    items = tuple(calls.call(run, args[0], [item], {}, node, frame) for item in known[:8])
    more = None if rest is None else calls.call(run, args[0], [rest], {}, node, frame)
    return Seq("list", items, more)


def filtered(run: Run, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    return Seq("list", (), iteration.any_item(run, args[1], node, frame)) if len(args) > 1 else UNKNOWN


def sequence(kind: str) -> Any:
    """`list`, `tuple`, `set`, `sorted`, `reversed`, `iter`."""

    def build(run: Run, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
        if not args:
            made = Seq(kind)
            made.birth = run.event("container", node, frame)
            return made
        if kind == "iter" and isinstance(args[0], Instance):
            known, rest = iteration.items_of(run, args[0], node, frame)
            return Seq("list", known, rest)
        known, rest = iteration.items_of(run, args[0], node, frame)
        made = Seq("list" if kind in ("sorted", "iter") else kind, known, rest)
        made.birth = run.event("container", node, frame)
        return made

    return build


def reversed_(run: Run, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    known, rest = iteration.items_of(run, args[0], node, frame) if args else ((), UNKNOWN)
    return Seq("list", tuple(reversed(known)), rest)


def dictionary(run: Run, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    """`dict`."""
    made = Dict()
    made.birth = run.event("container", node, frame)
    if args:
        if isinstance(args[0], Dict):
            made.cells.update(args[0].cells)
        else:
            from samedevice.lint.values import REST

            made.cells[REST] = Unknown()
    made.cells.update({k: v for k, v in kwargs.items() if k not in ("*", "**")})
    return made


def summed(run: Run, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    """`sum`: one addition after the other."""
    item = iteration.any_item(run, args[0], node, frame) if args else UNKNOWN
    found = [o for o in options(item) if tensor_of(o) is not None]
    if found:
        from samedevice.lint.tensors import check

        operands = [
            Operand(t, o, node.args[0] if isinstance(node, ast.Call) and node.args else None)
            for o in found
            if (t := tensor_of(o)) is not None
        ]
        return check(run, "iterator", node, "sum", operands, frame)
    return NUM if isinstance(item, Num | Const) else Unknown()


def smallest(run: Run, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    """`min` and `max`."""
    if len(args) == 1:
        return iteration.any_item(run, args[0], node, frame)
    if all(isinstance(a, Num | Const) for a in args):
        return NUM
    return Unknown()


def absolute(run: Run, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    tensor = tensor_of(args[0]) if args else None
    return tensor.derive(tensor.rank) if tensor is not None else NUM


def following(run: Run, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    """`next`."""
    if not args:
        return UNKNOWN
    if isinstance(args[0], Seq):
        return args[0].items[0] if args[0].items else element(args[0])
    return iteration.any_item(run, args[0], node, frame)


def get_attribute(run: Run, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    """`getattr`."""
    from samedevice.lint import exprs
    from samedevice.lint.module_methods import attribute_name

    if len(args) < 2:
        return UNKNOWN
    name = attribute_name(args[1])
    if name is None:
        return Unknown()
    if len(args) > 2:
        for option in options(args[0]):
            if (
                isinstance(option, Instance)
                and name not in option.cells
                and (option.cls is None or option.cls.find(name) is None)
            ):
                return Unknown(name)
    return exprs.get_attribute(run, args[0], name, node, frame)


def set_attribute(run: Run, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    """`setattr`."""
    from samedevice.lint import classes
    from samedevice.lint.module_methods import attribute_name

    if len(args) == 3:
        name = attribute_name(args[1])
        for owner in options(args[0]):
            if name is not None:
                classes.set_attribute(run, owner, name, args[2], node, frame)
    return NONE


def is_instance(run: Run, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    """`isinstance`."""
    if len(args) != 2:
        return NUM
    classes = list(args[1].items) if isinstance(args[1], Seq) else [args[1]]
    verdicts = {instance_of(value, cls) for value in options(args[0]) for cls in [classes]}
    if len(verdicts) == 1:
        known = verdicts.pop()
        return NUM if known is None else Const(known)
    return NUM


NAMES: dict[type, frozenset[str]] = {
    Seq: frozenset(("list", "tuple", "set")),
    Dict: frozenset(("dict",)),
    Array: frozenset(("numpy.ndarray",)),
}


def instance_of(value: Value, classes: list[Value]) -> bool | None:
    """Whether a value is an instance of one of the classes, None when unknown."""
    if isinstance(value, Unknown | Num):
        return None
    sure = True
    for cls in classes:
        if isinstance(cls, Ext):
            name = cls.name.removeprefix("builtins.")
            if tensor_of(value) is not None:
                if name == "torch.Tensor":
                    if isinstance(value, Tensor) and value.maybe:
                        return None
                    return True
                if name == "torch.nn.Parameter":
                    return isinstance(value, Param)
            elif isinstance(value, Seq):
                if name == value.kind:
                    return True
                if name.startswith(("collections", "typing")):
                    sure = False
            elif isinstance(value, Dict):
                if name in ("dict", "collections.abc.Mapping", "typing.Mapping", "typing.Dict"):
                    return True
                if name.startswith(("collections", "typing")):
                    sure = False
            elif isinstance(value, Const):
                kind = type(value.value).__name__
                if name == kind:
                    return True
            elif isinstance(value, Instance):
                if value.builtin == name or (name == "torch.nn.Module" and modules.is_module(value)):
                    return True
                if value.cls is not None and (
                    name in value.cls.external or any(e.startswith("?") for e in value.cls.external)
                ):
                    return True if name in value.cls.external else None
                if value.builtin is not None and name.startswith(
                    ("torch.nn.modules", "torch.optim.Optimizer")
                ):
                    sure = False
            elif isinstance(value, Device):
                if name in ("torch.device", "str"):
                    return None if value.dev.is_symbol else name == "torch.device"
            elif isinstance(value, Array):
                if name.startswith("numpy"):
                    return True
            else:
                sure = False
        elif isinstance(cls, Class):
            if isinstance(value, Instance) and value.cls is not None and cls in value.cls.mro:
                return True
        else:
            sure = False
    return False if sure else None


def type_of(run: Run, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    value = args[0] if args else UNKNOWN
    if isinstance(value, Instance) and value.cls is not None:
        return value.cls
    return Unknown()


HANDLERS: dict[str, Any] = {
    "enumerate": pairs,
    "zip": zipped,
    "range": ranged,
    "map": mapped,
    "filter": filtered,
    "list": sequence("list"),
    "tuple": sequence("tuple"),
    "set": sequence("set"),
    "sorted": sequence("sorted"),
    "iter": sequence("iter"),
    "reversed": reversed_,
    "dict": dictionary,
    "sum": summed,
    "min": smallest,
    "max": smallest,
    "abs": absolute,
    "next": following,
    "getattr": get_attribute,
    "setattr": set_attribute,
    "isinstance": is_instance,
    "type": type_of,
    "any": lambda *a: NUM,
    "all": lambda *a: NUM,
    "bool": lambda *a: NUM,
    "issubclass": lambda *a: NUM,
}


def library(run: Run, name: str, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value | None:
    """Functions of other libraries; None when it is none that we follow."""
    if name.startswith(("numpy.", "np.", "pandas.", "scipy.", "sklearn.")):
        return numpy_call(run, name, args, kwargs, node, frame)
    if name in ("copy.deepcopy", "copy.copy") and args:
        return copied(run, args[0], name == "copy.deepcopy", node, frame)
    if name == "functools.partial" and args:
        return Partial(args[0], args[1:], kwargs)
    if name in ("dataclasses.replace", "copy.replace") and args:
        return replaced(run, args[0], kwargs, node, frame)
    if name == "dataclasses.field":
        return None
    if name.startswith(("tqdm.", "tqdm")) and args:
        return args[0]
    if name.startswith(
        ("math.", "random.", "os.", "time.", "json.", "re.", "sys.", "logging.", "warnings.", "pathlib.")
    ):
        return NUM if name.startswith(("math.", "random.", "time.")) else Unknown(name)
    if name == "itertools.chain":
        rest: Value | None = None
        for arg in args:
            item = iteration.any_item(run, arg, node, frame)
            rest = item if rest is None else join(rest, item, True)
        return Seq("list", (), rest if rest is not None else UNKNOWN)
    if name in ("itertools.islice", "itertools.cycle") and args:
        known, more = iteration.items_of(run, args[0], node, frame)
        return Seq("list", known, more)
    if name in ("collections.OrderedDict", "collections.defaultdict"):
        return dictionary(run, args if name.endswith("OrderedDict") else [], kwargs, node, frame)
    if name == "collections.deque":
        queue: Value = sequence("list")(run, args[:1], {}, node, frame)
        return queue
    return None


def numpy_call(run: Run, name: str, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    """A NumPy function: it takes no GPU tensor."""
    for index, arg in enumerate(args):
        for option in options(arg):
            tensor = tensor_of(option)
            if tensor is not None and tensor.dev is not None and tensor.dev.is_gpu:
                argument = node.args[index] if isinstance(node, ast.Call) and index < len(node.args) else None
                meet.simple(
                    run,
                    "numpy",
                    name.replace("numpy.", "np."),
                    node,
                    frame,
                    Operand(tensor, option, argument),
                )
    last = name.rpartition(".")[2]
    if last in ("default_rng", "RandomState"):
        return ARRAY
    return ARRAY


def copied(
    run: Run, value: Value, deep: bool, node: ast.AST, frame: Frame, memo: dict[int, Value] | None = None
) -> Value:
    """`copy.deepcopy`."""
    memo = {} if memo is None else memo
    if id(value) in memo:
        return memo[id(value)]
    if isinstance(value, Tensor):
        return value.derive(value.rank)
    if isinstance(value, Param):
        made = Param(value.tensor.copy(), value.name, None)
        memo[id(value)] = made
        return made
    if isinstance(value, Instance):
        clone = Instance(
            value.cls, value.builtin, run.event("copied", node, frame, "copy.deepcopy", extra=value)
        )
        clone.opaque = value.opaque
        memo[id(value)] = clone
        for key, item in value.cells.items():
            if key in ("#held", "#moves", "#apply"):
                continue
            if isinstance(item, Value) and deep:
                item = copied(run, item, deep, node, frame, memo)
                if isinstance(item, Param) and item.owner is None:
                    item.owner = clone
                    tensor = item.tensor
                    tensor.birth = run.event("parameter", node, frame, item.name, extra=clone)
                    run.trail.write(item.cells, "t", tensor)
            elif isinstance(item, tuple) and deep and key in ("#items",):
                item = tuple(copied(run, i, deep, node, frame, memo) for i in item)
            clone.cells[key] = item
        return clone
    if isinstance(value, Seq):
        return Seq(
            value.kind,
            tuple(copied(run, i, deep, node, frame, memo) if deep else i for i in value.items),
            value.rest,
        )
    if isinstance(value, Dict):
        table = Dict()
        table.birth = value.birth
        for key, item in value.cells.items():
            table.cells[key] = (
                copied(run, item, deep, node, frame, memo) if deep and isinstance(item, Value) else item
            )
        return table
    return value


def replaced(run: Run, value: Value, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    """`dataclasses.replace`."""
    if not isinstance(value, Instance):
        return Unknown()
    clone = Instance(value.cls, value.builtin, run.event("created", node, frame, "replace"))
    clone.cells.update(value.cells)
    clone.cells.update({k: v for k, v in kwargs.items() if k not in ("*", "**")})
    return clone


__all__ = ["Bound", "Func", "call", "library"]
