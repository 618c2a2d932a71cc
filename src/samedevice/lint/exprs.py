"""Expressions: names, attributes, operators, comprehensions; calls go to `calls`."""

import ast
from collections.abc import Callable
from typing import Any

from samedevice.lint import calls, classes, iteration, loading, tensors
from samedevice.lint.conditions import data_decides, truth
from samedevice.lint.devices import same, symbol
from samedevice.lint.run import Frame, Run
from samedevice.lint.state import assemble, conflict, element, join, options, tagged
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


def as_load(target: ast.expr) -> ast.expr:
    """The target of an augmented assignment, to be read."""
    return target


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


def eval_binop(run: Run, node: ast.BinOp, frame: Frame) -> Value:
    left = evaluate(run, node.left, frame)
    right = evaluate(run, node.right, frame)
    return binary(run, node, left, right, node.left, node.right, frame)


def binary(
    run: Run, node: ast.BinOp | ast.AugAssign, left: Value, right: Value, left_node: ast.expr, right_node: ast.expr,
    frame: Frame, in_place: bool = False,
) -> Value:  # fmt: skip
    """`left op right` for any values."""
    if isinstance(left, Alts) or isinstance(right, Alts):
        found: list[tuple[Value, Tags]] = []
        for a, one_tags in tagged(left):
            for b, two_tags in tagged(right):
                if not conflict(one_tags, two_tags):
                    value = binary(run, node, a, b, left_node, right_node, frame, in_place)
                    found.append((value, one_tags | two_tags))
        return assemble(found) if found else UNKNOWN
    if isinstance(left, Tensor | Param) or isinstance(right, Tensor | Param):
        return tensors.operator(run, node, left, right, left_node, right_node, frame, in_place)
    if isinstance(left, Const) and isinstance(right, Const):
        return fold(node.op, left, right)
    if isinstance(left, Seq) and isinstance(right, Seq) and isinstance(node.op, ast.Add):
        if left.rest is None and right.rest is None and len(left.items) + len(right.items) <= 12:
            return Seq(left.kind, (*left.items, *right.items))
        return Seq(left.kind, (), join(element(left), element(right), True))
    if isinstance(left, Seq) and isinstance(node.op, ast.Mult):
        return Seq(left.kind, (), element(left))
    if isinstance(left, Array) or isinstance(right, Array):
        return ARRAY
    if isinstance(left, Num | Const) and isinstance(right, Num | Const):
        return NUM
    if isinstance(left, Instance) and left.cls is not None:
        return Unknown()
    return Unknown()


def fold(op: ast.operator, left: Const, right: Const) -> Value:
    """Constant arithmetic on small values."""
    a, b = left.value, right.value
    try:
        if isinstance(op, ast.Add) and isinstance(a, str) and isinstance(b, str) and len(a) < 200:
            return Const(a + b, left.site)
        if isinstance(op, ast.Add) and isinstance(a, int | float) and isinstance(b, int | float):
            return Const(a + b, left.site)
        if isinstance(a, int) and isinstance(b, int):
            if isinstance(op, ast.Sub):
                return Const(a - b, left.site)
            if isinstance(op, ast.Mult) and abs(a) < 10**9 and abs(b) < 10**9:
                return Const(a * b, left.site)
            if isinstance(op, ast.FloorDiv) and b:
                return Const(a // b, left.site)
            if isinstance(op, ast.Mod) and b:
                return Const(a % b, left.site)
    except (TypeError, ValueError, OverflowError):
        return NUM
    return NUM


def eval_unary(run: Run, node: ast.UnaryOp, frame: Frame) -> Value:
    value = evaluate(run, node.operand, frame)
    if isinstance(node.op, ast.Not):
        known = truth(value)
        return NUM if known is None else Const(not known)
    if isinstance(value, Const) and isinstance(value.value, int | float) and isinstance(node.op, ast.USub):
        return Const(-value.value, value.site)
    return distribute(
        value,
        lambda v: (
            tensors.result_of(v, None)
            if isinstance(v, Tensor | Param)
            else (v if isinstance(v, Array) else Unknown() if isinstance(v, Unknown) else NUM)
        ),
    )


def eval_boolop(run: Run, node: ast.BoolOp, frame: Frame) -> Value:
    conjunction = isinstance(node.op, ast.And)
    result: Value | None = None
    for part in node.values:
        value = evaluate(run, part, frame)
        known = truth(value)
        if known is (not conjunction):
            return value if result is None else join(result, value, data_decides(node))
        if known is None or part is node.values[-1]:
            result = value if result is None else join(result, value, data_decides(node))
    return result if result is not None else UNKNOWN


def eval_compare(run: Run, node: ast.Compare, frame: Frame) -> Value:
    left = evaluate(run, node.left, frame)
    right = evaluate(run, node.comparators[0], frame)
    if len(node.ops) > 1:
        for other in node.comparators[1:]:
            evaluate(run, other, frame)
        return NUM
    op = node.ops[0]
    if isinstance(op, ast.Is | ast.IsNot):
        known = identity(left, right)
        return NUM if known is None else Const(known is isinstance(op, ast.Is))
    if isinstance(op, ast.In | ast.NotIn):
        return membership(left, right, isinstance(op, ast.In))
    if any(isinstance(v, Tensor | Param) for side in (left, right) for v in options(side)):
        found: list[tuple[Value, Tags]] = []
        for a, one_tags in tagged(left):
            for b, two_tags in tagged(right):
                if conflict(one_tags, two_tags):
                    continue
                if tensors.tensor_of(a) is None and tensors.tensor_of(b) is None:
                    found.append((NUM, one_tags | two_tags))
                else:
                    value = tensors.operator(run, node, a, b, node.left, node.comparators[0], frame, False)
                    found.append((value, one_tags | two_tags))
        return assemble(found) if found else NUM
    if isinstance(left, Const) and isinstance(right, Const):
        return compare_constants(op, left.value, right.value)
    one, two = tensors.device_value(left, frame, strict=True), tensors.device_value(right, frame, strict=True)
    if one is not None and two is not None and isinstance(op, ast.Eq | ast.NotEq):
        if same(one.dev, two.dev):
            return Const(isinstance(op, ast.Eq))
        if not one.dev.is_symbol and not two.dev.is_symbol:
            return Const(isinstance(op, ast.NotEq))
        if one.dev.is_cpu or two.dev.is_cpu:
            return Const(isinstance(op, ast.NotEq))
    if (
        isinstance(left, Num)
        and left.tag == "gpus"
        and isinstance(right, Const)
        and isinstance(right.value, int)
    ):
        if isinstance(op, ast.Gt | ast.NotEq) and right.value <= 0:
            return Const(True)
        if isinstance(op, ast.GtE) and right.value <= 1:
            return Const(True)
        if isinstance(op, ast.Eq | ast.Lt | ast.LtE) and right.value <= 0:
            return Const(False)
        return Num("gpus-compared")
    return NUM


def identity(left: Value, right: Value) -> bool | None:
    """`left is right`, None when unknown."""
    if isinstance(right, Const) and (right.value is None or isinstance(right.value, bool)):
        if isinstance(left, Const):
            return left.value is right.value
        if isinstance(left, Unknown | Num):
            return None
        if isinstance(left, Alts):
            found = {identity(option, right) for option in left.options}
            return found.pop() if len(found) == 1 else None
        if isinstance(left, Tensor) and left.maybe:
            return None if right.value is None and left.likely else False
        return False
    if isinstance(left, Instance | Class | Func) and isinstance(right, Instance | Class | Func):
        return left is right
    return None


def membership(left: Value, right: Value, positive: bool) -> Value:
    """`left in right` for constants."""
    if isinstance(left, Const) and isinstance(right, Seq) and right.rest is None:
        if all(isinstance(item, Const) for item in right.items):
            found = any(isinstance(item, Const) and item.value == left.value for item in right.items)
            return Const(found is positive)
        return NUM
    if isinstance(left, Const) and isinstance(right, Dict) and REST not in right.cells:
        return Const((left.value in right.cells) is positive)
    if (
        isinstance(left, Const)
        and isinstance(right, Const)
        and isinstance(left.value, str)
        and isinstance(right.value, str)
    ):
        return Const((left.value in right.value) is positive)
    return NUM


def compare_constants(op: ast.cmpop, a: Any, b: Any) -> Value:
    try:
        if isinstance(op, ast.Eq):
            return Const(a == b)
        if isinstance(op, ast.NotEq):
            return Const(a != b)
        if isinstance(op, ast.Lt):
            return Const(a < b)
        if isinstance(op, ast.LtE):
            return Const(a <= b)
        if isinstance(op, ast.Gt):
            return Const(a > b)
        return Const(a >= b)
    except TypeError:
        return NUM


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
    narrowed = narrow(run, node.test, frame)

    def side(part: ast.expr, positive: bool) -> int:
        apply_narrowing(run, narrowed, positive, frame)
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


def eval_sequence(kind: str) -> Callable[[Run, Any, Frame], Value]:
    def build(run: Run, node: Any, frame: Frame) -> Value:
        items: list[Value] = []
        rest: Value | None = None
        for part in node.elts:
            if isinstance(part, ast.Starred):
                value = evaluate(run, part.value, frame)
                if isinstance(value, Seq) and value.rest is None:
                    items.extend(value.items)
                else:
                    known, more = iteration.items_of(run, value, part, frame)
                    items.extend(known)
                    rest = more if rest is None else rest
            elif len(items) < LONG:
                items.append(evaluate(run, part, frame))
        result = Seq(kind, tuple(items), rest)
        result.birth = run.event("container", node, frame)
        return result

    return build


def eval_dict(run: Run, node: ast.Dict, frame: Frame) -> Value:
    result = Dict()
    result.birth = run.event("container", node, frame)
    for key_node, value_node in zip(node.keys[:LONG], node.values[:LONG], strict=True):
        value = evaluate(run, value_node, frame)
        if key_node is None:
            if isinstance(value, Dict):
                result.cells.update(value.cells)
            else:
                result.cells[REST] = UNKNOWN
            continue
        key = evaluate(run, key_node, frame)
        if isinstance(key, Const) and isinstance(key.value, str | int | bool | float):
            result.cells[key.value] = value
        else:
            old = result.cells.get(REST)
            result.cells[REST] = value if old is None else join(old, value, True)
    if len(node.keys) > LONG:
        result.cells[REST] = UNKNOWN
    return result


def comprehension(run: Run, node: Any, frame: Frame, emit: Callable[[Frame], None]) -> bool:
    """Run `emit` for each round; False when the number of rounds is unknown."""
    inner = Frame(frame.module, frame.func, frame.stack, frame, frame.depth)
    inner.file, inner.name = frame.file, frame.name
    inner.self_value, inner.cls = frame.self_value, frame.cls
    inner.func = frame.func
    exact = True

    def level(number: int) -> None:
        nonlocal exact
        if number == len(node.generators):
            emit(inner)
            return
        generator = node.generators[number]
        iterable = evaluate(run, generator.iter, inner)
        known, rest = iteration.items_of(run, iterable, node, inner)
        rounds = list(known[:8])
        if rest is not None or len(known) > 8:
            exact = False
            rounds.append(rest if rest is not None else known[8])
        from samedevice.lint.flow import assign

        for item in rounds:
            assign(run, generator.target, item, inner, generator.target)
            verdicts = []
            for condition in generator.ifs:
                verdicts.append(truth(evaluate(run, condition, inner)))
                apply_narrowing(run, narrow(run, condition, inner), True, inner)
            if False in verdicts:
                continue
            if None in verdicts:
                exact = False
            level(number + 1)

    level(0)
    return exact


def eval_listcomp(kind: str) -> Callable[[Run, Any, Frame], Value]:
    def build(run: Run, node: Any, frame: Frame) -> Value:
        found: list[Value] = []
        exact = comprehension(run, node, frame, lambda inner: found.append(evaluate(run, node.elt, inner)))
        result: Seq
        if exact:
            result = Seq(kind, tuple(found))
        else:
            rest: Value | None = None
            for value in found:
                rest = value if rest is None else join(rest, value, True)
            result = Seq(kind, (), rest if rest is not None else UNKNOWN)
        result.birth = run.event("container", node, frame)
        return result

    return build


def eval_dictcomp(run: Run, node: ast.DictComp, frame: Frame) -> Value:
    result = Dict()
    result.birth = run.event("container", node, frame)

    def emit(inner: Frame) -> None:
        key = evaluate(run, node.key, inner)
        value = evaluate(run, node.value, inner)
        if isinstance(key, Const) and isinstance(key.value, str | int | bool | float):
            result.cells[key.value] = value
        else:
            old = result.cells.get(REST)
            result.cells[REST] = value if old is None else join(old, value, True)

    comprehension(run, node, frame, emit)
    if isinstance(node.value, ast.Call | ast.IfExp):
        calls.note_missed_here(run, node, result, frame)
    return result


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


Narrowing = list[tuple[str, str, Any]]


def narrow(run: Run, test: ast.expr, frame: Frame) -> Narrowing:
    """What a condition says about plain names: (name, what, detail)."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.left, ast.Name):
        right = test.comparators[0]
        if isinstance(right, ast.Constant) and right.value is None:
            if isinstance(test.ops[0], ast.Is):
                return [(test.left.id, "none", True)]
            if isinstance(test.ops[0], ast.IsNot):
                return [(test.left.id, "none", False)]
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return [
            (name, what, not detail)
            for name, what, detail in narrow(run, test.operand, frame)
            if what == "none"
        ]
    if isinstance(test, ast.Name):
        return [(test.id, "true", True)]
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return [
            (n, w, d)
            for part in test.values
            for n, w, d in narrow(run, part, frame)
            if (w, d) != ("none", True)
        ]
    return []


def apply_narrowing(run: Run, narrowed: Narrowing, positive: bool, frame: Frame) -> None:
    """Restrict alternatives of local names to those that the branch allows."""
    if len(narrowed) > 1 and not positive:
        return
    for name, what, detail in narrowed:
        value = frame.locals.get(name)
        if what == "none":
            is_none = detail is positive
            if isinstance(value, Alts):
                kept = [
                    (o, t) for o, t in tagged(value) if (isinstance(o, Const) and o.value is None) is is_none
                ]
                if kept:
                    run.trail.write(frame.locals, name, assemble(kept))
            elif isinstance(value, Unknown) and is_none:
                run.trail.write(frame.locals, name, NONE)
        elif what == "true" and positive and isinstance(value, Alts):
            kept = [(o, t) for o, t in tagged(value) if truth(o) is not False]
            if kept:
                run.trail.write(frame.locals, name, assemble(kept))


EXPRESSIONS: dict[type[ast.AST], Callable[[Run, Any, Frame], Value]] = {
    ast.Constant: eval_constant,
    ast.Name: eval_name,
    ast.Attribute: eval_attribute,
    ast.Call: eval_call,
    ast.BinOp: eval_binop,
    ast.UnaryOp: eval_unary,
    ast.BoolOp: eval_boolop,
    ast.Compare: eval_compare,
    ast.IfExp: eval_ifexp,
    ast.Subscript: eval_subscript,
    ast.Slice: eval_slice,
    ast.Tuple: eval_sequence("tuple"),
    ast.List: eval_sequence("list"),
    ast.Set: eval_sequence("set"),
    ast.Dict: eval_dict,
    ast.ListComp: eval_listcomp("list"),
    ast.SetComp: eval_listcomp("set"),
    ast.GeneratorExp: eval_listcomp("list"),
    ast.DictComp: eval_dictcomp,
    ast.Lambda: eval_lambda,
    ast.JoinedStr: eval_joined,
    ast.NamedExpr: eval_named,
    ast.Yield: eval_yield,
    ast.YieldFrom: eval_yield_from,
    ast.Await: eval_await,
    ast.Starred: eval_starred,
}

__all__ = ["Dtype", "Lazy", "evaluate"]
