"""Expressions: names, attributes, operators, comprehensions; calls go to `calls`."""

import ast
from collections.abc import Callable
from typing import Any

from samedevice.lint import calls, classes, displays, iteration, loading, narrowing, operators, tensors
from samedevice.lint.conditions import data_decides, truth
from samedevice.lint.devices import symbol
from samedevice.lint.run import Frame, Run
from samedevice.lint.state import assemble, element, join, tagged
from samedevice.lint.values import (
    ARRAY,
    NONE,
    NUM,
    REST,
    UNKNOWN,
    Alts,
    Array,
    Class,
    Const,
    Device,
    Dict,
    Dtype,
    Ext,
    Func,
    Instance,
    Lazy,
    Method,
    Module,
    Num,
    Param,
    Seq,
    Super,
    Tags,
    Tensor,
    Unknown,
    Value,
)

BUILTIN_NAMES = frozenset(
    "len range print isinstance issubclass enumerate zip map filter list tuple dict set frozenset sorted reversed sum min max "
    "abs any all int float str bool bytes getattr setattr hasattr delattr next iter super type open round repr id hash "
    "callable vars object property staticmethod classmethod slice divmod pow input exit quit ValueError RuntimeError "
    "Exception NotImplementedError KeyError TypeError AttributeError IndexError StopIteration ImportError".split()
)


def evaluate(run: Run, node: ast.AST, frame: Frame) -> Value:
    """The abstract value of an expression."""
    run.limit -= 1
    if run.limit < 0:
        run.tick(0)
    handler = EXPRESSIONS.get(type(node))
    return UNKNOWN if handler is None else handler(run, node, frame)


def eval_constant(run: Run, node: ast.Constant, frame: Frame) -> Value:
    if node.value is None:
        return NONE
    return Const(node.value, frame.site(node))


def lookup(run: Run, name: str, frame: Frame) -> Value | None:
    """What a name is bound to, None if nothing."""
    scope: Frame | None = frame
    while scope is not None:
        value = scope.locals.get(name)
        if value is not None and name not in scope.globals_:
            return loading.force(run, value, scope.locals, name)
        scope = scope.parent
    value = frame.module.env.get(name)
    if value is not None:
        return loading.force(run, value, frame.module.env, name)
    return None


def eval_name(run: Run, node: ast.Name, frame: Frame) -> Value:
    found = lookup(run, node.id, frame)
    if found is not None:
        return found
    if node.id in BUILTIN_NAMES:
        return Ext("builtins." + node.id)
    return Unknown(node.id)


def eval_attribute(run: Run, node: ast.Attribute, frame: Frame) -> Value:
    owner = evaluate(run, node.value, frame)
    return get_attribute(run, owner, node.attr, node, frame)


def distribute(value: Value, function: Callable[[Value], Value]) -> Value:
    """Apply `function` to each alternative and join."""
    if not isinstance(value, Alts):
        return function(value)
    found: list[tuple[Value, Tags]] = []
    for option, tags in tagged(value):
        found.extend((one, tags | more) for one, more in tagged(function(option)))
    return assemble(found)


def get_attribute(run: Run, owner: Value, name: str, node: ast.AST, frame: Frame) -> Value:
    """`owner.name`."""
    if isinstance(owner, Alts):
        return distribute(owner, lambda option: get_attribute(run, option, name, node, frame))
    if isinstance(owner, Instance):
        return classes.get_instance_attribute(run, owner, name, node, frame)
    if isinstance(owner, Tensor | Param):
        return tensors.get_attribute(run, owner, name, node, frame)
    if isinstance(owner, Ext):
        return loading.external(f"{owner.name}.{name}")
    if isinstance(owner, Module):
        return loading.module_attribute(run, owner, name)
    if isinstance(owner, Class):
        return classes.get_class_attribute(run, owner, name, node, frame)
    if isinstance(owner, Super):
        return classes.get_super_attribute(run, owner, name, node, frame)
    if isinstance(owner, Device):
        if name == "type":
            return Num() if owner.dev.is_symbol else Const(owner.dev.type)
        if name == "index":
            return Num()
        return UNKNOWN
    if isinstance(owner, Unknown):
        return child(owner, name)
    if isinstance(owner, Array):
        return (
            ARRAY
            if name in ("T", "values", "real", "imag", "flat")
            else (NUM if name in ("shape", "size", "ndim", "dtype") else Method(owner, name))
        )
    if isinstance(owner, Seq | Dict | Const | Num | Func):
        return Method(owner, name)
    return UNKNOWN


def child(owner: Unknown, name: str) -> Value:
    """An attribute of an unknown value: unknown, but the same at each look."""
    if owner is UNKNOWN:
        return Unknown(name)
    if owner.attrs is None:
        owner.attrs = {}
    value = owner.attrs.get(name)
    if value is None:
        value = owner.attrs[name] = Unknown(f"{owner.name}.{name}" if owner.name else name)
    return value


def eval_call(run: Run, node: ast.Call, frame: Frame) -> Value:
    func = evaluate(run, node.func, frame)
    args: list[Value] = []
    kwargs: dict[str, Value] = {}
    for arg in node.args:
        if isinstance(arg, ast.Starred):
            value = evaluate(run, arg.value, frame)
            if isinstance(value, Seq) and value.rest is None:
                args.extend(value.items)
            else:
                kwargs["*"] = value
        else:
            args.append(evaluate(run, arg, frame))
    for keyword in node.keywords:
        value = evaluate(run, keyword.value, frame)
        if keyword.arg is not None:
            kwargs[keyword.arg] = value
        elif (
            isinstance(value, Dict)
            and REST not in value.cells
            and all(isinstance(k, str) for k in value.cells)
        ):
            kwargs.update(value.cells)
        else:
            kwargs["**"] = value
    if isinstance(func, Ext) and func.name == "builtins.super":
        return classes.make_super(run, args, frame)
    return calls.call(run, func, args, kwargs, node, frame)


def call(
    run: Run, func: Value, args: list[Value], kwargs: dict[str, Value], node: ast.AST, frame: Frame
) -> Value:
    """Call a value."""
    return calls.call(run, func, args, kwargs, node, frame)


def eval_ifexp(run: Run, node: ast.IfExp, frame: Frame) -> Value:
    from samedevice.lint.flow import branch

    test = evaluate(run, node.test, frame)
    known = truth(test)
    if known is True:
        return evaluate(run, node.body, frame)
    if known is False:
        return evaluate(run, node.orelse, frame)
    found: list[Value] = []
    exact = data_decides(node.test) or (isinstance(test, Num) and test.tag == "gpus-compared")
    narrowed = narrowing.narrow(run, node.test, frame)

    def side(part: ast.expr, positive: bool) -> int:
        narrowing.apply_narrowing(run, narrowed, positive, frame)
        found.append(evaluate(run, part, frame))
        return 0

    branch(run, frame, lambda: side(node.body, True), lambda: side(node.orelse, False), exact)
    return join(found[0], found[1], exact)


def eval_subscript(run: Run, node: ast.Subscript, frame: Frame) -> Value:
    owner = evaluate(run, node.value, frame)
    key = evaluate(run, node.slice, frame)
    return distribute(owner, lambda option: get_item(run, option, key, node, frame))


def get_item(run: Run, owner: Value, key: Value, node: ast.Subscript, frame: Frame) -> Value:
    """`owner[key]`."""
    if isinstance(owner, Tensor | Param):
        return tensors.index(run, owner, key, node, frame)
    if isinstance(owner, Seq):
        if isinstance(node.slice, ast.Slice):
            return slice_of(owner, node.slice, run, frame)
        if isinstance(key, Const) and isinstance(key.value, int) and not isinstance(key.value, bool):
            number = key.value
            if owner.rest is None and -len(owner.items) <= number < len(owner.items):
                return owner.items[number]
            if 0 <= number < len(owner.items):
                return owner.items[number]
        return element(owner)
    if isinstance(owner, Dict):
        if isinstance(key, Const) and key.value in owner.cells:
            found: Value = owner.cells[key.value]
            return found
        if isinstance(key, Param) and key in owner.cells:
            held: Value = owner.cells[key]
            return held
        if isinstance(key, Const):
            rest: Value | None = owner.cells.get(REST)
            return rest if rest is not None else UNKNOWN
        return element(owner)
    if isinstance(owner, Instance):
        return classes.get_instance_item(run, owner, key, node, frame)
    if isinstance(owner, Array):
        return ARRAY
    if isinstance(owner, Const | Num):
        return NUM
    if isinstance(owner, Unknown):
        if isinstance(key, Const) and isinstance(key.value, str | int):
            return child(owner, f"[{key.value!r}]")
        return Unknown(f"{owner.name}[…]" if owner.name else "")
    return UNKNOWN


def slice_of(owner: Seq, part: ast.Slice, run: Run, frame: Frame) -> Value:
    bounds: list[int | None] = []
    for edge in (part.lower, part.upper, part.step):
        if edge is None:
            bounds.append(None)
            continue
        value = evaluate(run, edge, frame)
        if not (isinstance(value, Const) and isinstance(value.value, int)):
            return Seq(owner.kind, (), element(owner))
        bounds.append(value.value)
    if owner.rest is None and bounds[2] != 0:
        return Seq(owner.kind, owner.items[slice(*bounds)])
    return Seq(owner.kind, (), element(owner))


def eval_slice(run: Run, node: ast.Slice, frame: Frame) -> Value:
    for edge in (node.lower, node.upper, node.step):
        if edge is not None:
            evaluate(run, edge, frame)
    return Num("slice")


#: of a longer literal, a table, only so many entries are looked at
LONG = 64


def eval_lambda(run: Run, node: ast.Lambda, frame: Frame) -> Value:
    return classes.make_function(run, node, frame)


def eval_joined(run: Run, node: ast.JoinedStr, frame: Frame) -> Value:
    parts: list[str] = []
    known = True
    for part in node.values:
        if isinstance(part, ast.Constant):
            parts.append(str(part.value))
            continue
        value = evaluate(run, part.value, frame) if isinstance(part, ast.FormattedValue) else NUM
        if isinstance(value, Const) and isinstance(value.value, str | int):
            parts.append(str(value.value))
        elif isinstance(value, Device) and not value.dev.is_symbol:
            parts.append(str(value.dev))
        else:
            known = False
            parts.append(
                "{" + ast.unparse(part.value if isinstance(part, ast.FormattedValue) else part) + "}"
            )
    text = "".join(parts)
    if known:
        return Const(text, frame.site(node))
    head = text.partition(":")[0]
    if head in ("cuda", "xpu", "npu", "hpu") and text.startswith(head + ":"):
        return Device(symbol(("indexed", text), text), frame.site(node))
    return Num("name:" + text)


def eval_named(run: Run, node: ast.NamedExpr, frame: Frame) -> Value:
    from samedevice.lint.flow import assign

    value = evaluate(run, node.value, frame)
    assign(run, node.target, value, frame, node)
    return value


def eval_yield(run: Run, node: ast.Yield, frame: Frame) -> Value:
    value = NONE if node.value is None else evaluate(run, node.value, frame)
    if frame.yields is not None:
        frame.yields.append(value)
    return Unknown()


def eval_yield_from(run: Run, node: ast.YieldFrom, frame: Frame) -> Value:
    value = evaluate(run, node.value, frame)
    known, rest = iteration.items_of(run, value, node, frame)
    if frame.yields is not None:
        frame.yields.extend(known)
        if rest is not None:
            frame.yields.append(rest)
    return Unknown()


def eval_await(run: Run, node: ast.Await, frame: Frame) -> Value:
    return evaluate(run, node.value, frame)


def eval_starred(run: Run, node: ast.Starred, frame: Frame) -> Value:
    evaluate(run, node.value, frame)
    return UNKNOWN


EXPRESSIONS: dict[type[ast.AST], Callable[[Run, Any, Frame], Value]] = {
    ast.Constant: eval_constant,
    ast.Name: eval_name,
    ast.Attribute: eval_attribute,
    ast.Call: eval_call,
    ast.BinOp: operators.eval_binop,
    ast.UnaryOp: operators.eval_unary,
    ast.BoolOp: operators.eval_boolop,
    ast.Compare: operators.eval_compare,
    ast.IfExp: eval_ifexp,
    ast.Subscript: eval_subscript,
    ast.Slice: eval_slice,
    ast.Tuple: displays.eval_sequence("tuple"),
    ast.List: displays.eval_sequence("list"),
    ast.Set: displays.eval_sequence("set"),
    ast.Dict: displays.eval_dict,
    ast.ListComp: displays.eval_listcomp("list"),
    ast.SetComp: displays.eval_listcomp("set"),
    ast.GeneratorExp: displays.eval_listcomp("list"),
    ast.DictComp: displays.eval_dictcomp,
    ast.Lambda: eval_lambda,
    ast.JoinedStr: eval_joined,
    ast.NamedExpr: eval_named,
    ast.Yield: eval_yield,
    ast.YieldFrom: eval_yield_from,
    ast.Await: eval_await,
    ast.Starred: eval_starred,
}

__all__ = ["Dtype", "Lazy", "evaluate"]
