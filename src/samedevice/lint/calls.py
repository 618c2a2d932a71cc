"""Calls: of the project's functions and classes, of torch, of Python's builtins, and of the unknown."""

import ast
from typing import Any

from samedevice.lint import builtin_objects, builtins_, classes, methods, module_calls, modules, torch_calls
from samedevice.lint.run import Frame, Run
from samedevice.lint.state import assemble, compatible, join, options, tagged
from samedevice.lint.values import (
    UNKNOWN,
    Alts,
    Bound,
    Class,
    Dict,
    Event,
    Ext,
    Func,
    Instance,
    Method,
    Native,
    Param,
    Partial,
    Seq,
    Site,
    Tags,
    Tensor,
    Unknown,
    Value,
)
from samedevice.torch_facts import api

RECURSION = 3
#: functions of a program that move a batch, by name
MOVERS = frozenset(
    "to cuda to_device move_to move_to_device send_to send_to_device to_gpu to_cuda move move_batch".split()
)


def call(
    run: Run, func: Value, args: list[Value], kwargs: dict[str, Value], node: ast.AST, frame: Frame
) -> Value:
    """The result of calling `func`."""
    if isinstance(func, Func):
        return invoke(run, func, None, args, kwargs, node, frame)
    if isinstance(func, Bound):
        if isinstance(func.func, Func):
            return invoke(run, func.func, func.self_value, args, kwargs, node, frame)
        return call(run, func.func, [func.self_value, *args], kwargs, node, frame)
    if isinstance(func, Ext):
        return external(run, func, args, kwargs, node, frame)
    if isinstance(func, Method):
        assert isinstance(node, ast.AST)
        return methods.call_method(run, func, args, kwargs, node, frame)  # type: ignore[arg-type]
    if isinstance(func, Class):
        return classes.instantiate(run, func, args, kwargs, node, frame)
    if isinstance(func, Instance):
        return module_calls.call_instance(run, func, args, kwargs, node, frame)
    if isinstance(func, Alts):
        found: list[tuple[Value, Tags]] = []
        for option, tags in tagged(func):
            narrowed = [compatible(a, tags) for a in args]
            value = call(
                run, option, narrowed, {k: compatible(v, tags) for k, v in kwargs.items()}, node, frame
            )
            found.extend((one, tags | more) for one, more in tagged(value))
        return assemble(found)
    if isinstance(func, Partial):
        return call(run, func.func, [*func.args, *args], {**func.kwargs, **kwargs}, node, frame)
    if isinstance(func, Native):
        result_of: Value = func.call(args, kwargs, node, frame)
        return result_of
    if isinstance(func, Tensor) and not func.maybe:
        return func
    return unknown_call(run, func, args, kwargs, node, frame)


def unknown_call(
    run: Run, func: Value, args: list[Value], kwargs: dict[str, Value], node: ast.AST, frame: Frame
) -> Value:
    """A call of which nothing is known: it may have moved what it was given."""
    name = func.name if isinstance(func, Unknown | Ext) else ""
    last = name.rpartition(".")[2]
    if last not in api.HARMLESS_METHODS and not isinstance(func, Tensor):
        for value in (*args, *kwargs.values()):
            havoc(run, value)
    result = Unknown(f"{name}()" if name else "")
    if isinstance(func, Unknown) and func.tags:
        result.tags = func.tags
    return result


def havoc(run: Run, value: Value, depth: int = 3) -> None:
    """Forget where an object's parts are: code that we cannot see got hold of it."""
    if depth == 0:
        return
    for option in options(value):
        if isinstance(option, Instance):
            if option.builtin is not None and option.cls is None and not modules.is_module(option):
                continue
            for key, part in list(option.cells.items()):
                if isinstance(key, str) and key.startswith("#"):
                    continue
                if isinstance(part, Tensor):
                    run.trail.write(option.cells, key, forgotten(part))
                elif isinstance(part, Param):
                    run.trail.write(part.cells, "t", forgotten(part.tensor))
                elif isinstance(part, Obj_):
                    havoc(run, part, depth - 1)
        elif isinstance(option, Param):
            run.trail.write(option.cells, "t", forgotten(option.tensor))
        elif isinstance(option, Seq):
            if option.kind != "tuple":
                for item in (*option.items, *([option.rest] if option.rest is not None else [])):
                    if isinstance(item, Instance | Seq | Dict):
                        havoc(run, item, depth - 1)
                if option.items or option.rest is not None:
                    run.trail.write(
                        option.cells,
                        "items",
                        tuple(forgotten(i) if isinstance(i, Tensor) else i for i in option.items),
                    )
                    rest = option.rest
                    if isinstance(rest, Tensor):
                        run.trail.write(option.cells, "rest", forgotten(rest))
            else:
                for item in option.items:
                    havoc(run, item, depth - 1)
        elif isinstance(option, Dict):
            for key, part in list(option.cells.items()):
                if isinstance(part, Tensor):
                    run.trail.write(option.cells, key, forgotten(part))
                elif isinstance(part, Value):
                    havoc(run, part, depth - 1)


Obj_ = Instance | Seq | Dict


def forgotten(tensor: Tensor) -> Tensor:
    """The tensor without its device."""
    result = tensor.copy()
    result.dev = None
    return result


def external(
    run: Run, func: Ext, args: list[Value], kwargs: dict[str, Value], node: ast.AST, frame: Frame
) -> Value:
    """A call into an installed package."""
    name = func.name
    if name.startswith("torch."):
        return torch_calls.call(run, name[6:], args, kwargs, node, frame)
    if name.startswith("builtins."):
        return builtins_.call(run, name[9:], args, kwargs, node, frame)
    handled = builtins_.library(run, name, args, kwargs, node, frame)
    if handled is not None:
        return handled
    made = builtin_objects.construct(run, name, args, kwargs, node, frame)
    if made is not None:
        return made
    return unknown_call(run, func, args, kwargs, node, frame)


def bind_arguments(
    run: Run,
    func: Func,
    self_value: Value | None,
    args: list[Value],
    kwargs: dict[str, Value],
    inner: Frame,
    site: Site,
) -> None:
    """Give the parameters their values; what nobody passed and has no default is unknown."""
    a = func.node.args
    positional = [*a.posonlyargs, *a.args]
    values = [self_value, *args] if self_value is not None else list(args)
    cells = inner.locals
    write = run.trail.write
    unsure = "*" in kwargs or "**" in kwargs
    for index, parameter in enumerate(positional):
        name = parameter.arg
        if index < len(values):
            value = values[index]
            assert value is not None
        elif name in kwargs:
            value = kwargs[name]
        else:
            number = index - (len(positional) - len(func.defaults))
            if number >= 0 and not unsure:
                value = classes.defaulted(func.defaults[number], name, func, site, inner)
            else:
                value = Unknown(name)
        write(cells, name, value)
    for number, parameter in enumerate(a.kwonlyargs):
        name = parameter.arg
        if name in kwargs:
            write(cells, name, kwargs[name])
        elif name in func.kwdefaults and not unsure:
            write(cells, name, classes.defaulted(func.kwdefaults[name], name, func, site, inner))
        else:
            write(cells, name, Unknown(name))
        del number
    if a.vararg is not None:
        extra = tuple(v for v in values[len(positional) :] if v is not None)
        write(cells, a.vararg.arg, Seq("tuple", extra, UNKNOWN if "*" in kwargs else None))
    if a.kwarg is not None:
        names = {p.arg for p in (*positional, *a.kwonlyargs)}
        rest = Dict()
        for key, value in kwargs.items():
            if key not in names and key not in ("*", "**"):
                rest.cells[key] = value
        if "**" in kwargs:
            from samedevice.lint.values import REST

            rest.cells[REST] = UNKNOWN
        write(cells, a.kwarg.arg, rest)


def invoke(
    run: Run,
    func: Func,
    self_value: Value | None,
    args: list[Value],
    kwargs: dict[str, Value],
    node: ast.AST,
    frame: Frame,
) -> Value:
    """Run a function of the project."""
    from samedevice.lint import flow

    if (
        func.opaque
        or frame.depth >= run.max_depth
        or sum(1 for f in run.active if f.node is func.node) >= RECURSION
    ):
        return unknown_call(
            run, Unknown(func.name), args if self_value is None else [self_value, *args], kwargs, node, frame
        )
    run.tick(2)
    run.reached.add(id(func.node))
    site = Site(frame.file, node, frame.name)
    inner = Frame(func.module, func, (*frame.stack, site), func.closure, frame.depth + 1)
    inner.self_value = self_value
    inner.cls = func.cls
    bind_arguments(run, func, self_value, args, kwargs, inner, site)
    run.active.append(func)
    run.frames.append(inner)
    try:
        if isinstance(func.node, ast.Lambda):
            from samedevice.lint.exprs import evaluate

            return evaluate(run, func.node.body, inner)
        if classes.is_generator(func.node, func.file.text):
            inner.yields = []
            flow.exec_block(run, func.node.body, inner)
            return yielded(inner)
        signal = flow.exec_block(run, func.node.body, inner)
        if inner.ended:
            flow.absorb(run, inner.ended)
        result = returned(inner, signal)
        if func.name in MOVERS:
            note_missed(run, func, result, inner)
        return result
    finally:
        run.active.pop()
        run.frames.pop()


def parts(value: Value, depth: int = 4) -> list[tuple[str, Tensor]]:
    """The tensors in a batch object, with how they are reached."""
    if isinstance(value, Tensor):
        return [("", value)]
    if depth == 0:
        return []
    found: list[tuple[str, Tensor]] = []
    if isinstance(value, Instance) and not modules.is_module(value):
        for key, item in value.cells.items():
            if isinstance(item, Value) and not str(key).startswith("#"):
                found += [(f".{key}{rest}", t) for rest, t in parts(item, depth - 1)]
    elif isinstance(value, Dict):
        for key, item in value.cells.items():
            if isinstance(item, Value):
                found += [(f"[{key!r}]{rest}", t) for rest, t in parts(item, depth - 1)]
    elif isinstance(value, Seq):
        for number, item in enumerate(value.items):
            found += [(f"[{number}]{rest}", t) for rest, t in parts(item, depth - 1)]
        if value.rest is not None:
            found += [(f"[…]{rest}", t) for rest, t in parts(value.rest, depth - 1)]
    return found


def note_missed(run: Run, func: Func, result: Value, inner: Frame) -> None:
    """A function that moves a batch, and leaves some tensors of it where they were."""
    from samedevice.lint.autograd import return_node

    found = parts(result)
    if any(t.moved is not None and t.moved.stack[: len(inner.stack)] == inner.stack for _, t in found):
        leave(found, Event("missed", Site(func.file, return_node(func), func.name), inner.stack))


def note_missed_here(run: Run, node: ast.AST, result: Value, frame: Frame) -> None:
    """The same for a comprehension that moves what it walks over."""
    found = parts(result)
    inside = {id(n) for n in ast.walk(node)}
    if any(t.moved is not None and id(t.moved.site.node) in inside for _, t in found):
        leave(found, run.event("missed", node, frame))


def leave(found: list[tuple[str, Tensor]], event: Event) -> None:
    """Note on the tensors that were not moved that the others were."""
    for reach, tensor in found:
        if tensor.moved is None and tensor.missed is None and tensor.dev is not None and tensor.dev.is_cpu:
            tensor.missed = Event("missed", event.site, event.stack, reach)


def returned(inner: Frame, signal: int) -> Value:
    """The join of what a function returns."""
    from samedevice.lint.values import NONE

    if not inner.returns:
        return NONE
    exact = all(sure for _, sure in inner.returns)
    result = inner.returns[0][0]
    for value, _ in inner.returns[1:]:
        result = join(result, value, exact, object())
    return result


def yielded(inner: Frame) -> Value:
    """What a generator gives."""
    rest: Any = None
    for value in inner.yields or []:
        rest = value if rest is None else join(rest, value, True)
    return Seq("list", (), rest if rest is not None else UNKNOWN)
