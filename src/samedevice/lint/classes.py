"""Functions and classes of the project: definition, hierarchy, attributes, creation."""

import ast
from bisect import bisect_left
from functools import lru_cache
from typing import Any

from samedevice.lint.run import Frame, Run
from samedevice.lint.values import (
    NONE,
    NUM,
    UNKNOWN,
    Bound,
    Class,
    Const,
    Device,
    Dict,
    Event,
    Ext,
    Func,
    Instance,
    Method,
    Module,
    Param,
    Seq,
    Site,
    Super,
    Tensor,
    Unknown,
    Value,
)
from samedevice.torch_facts import api

#: decorators that leave a function what it is, by the last part of their name
TRANSPARENT = frozenset(
    "no_grad inference_mode enable_grad abstractmethod wraps overload override lru_cache cache final jit script compile export "
    "ignore unused autocast custom_fwd custom_bwd once_differentiable typechecked set_grad_enabled contextmanager jaxtyped "
    "record deprecated deprecate_kwarg timeit profile unused_ rank_zero_only experimental add_start_docstrings "
    "add_start_docstrings_to_model_forward add_code_sample_docstrings replace_return_docstrings can_return_tuple "
    "option argument group version_option pass_context pass_obj check_model_inputs auto_docstring register_to_config main command typed beartype singledispatch dynamic_rope_update".split()
)


def make_function(run: Run, node: Any, frame: Frame) -> Value:
    """The function value of a `def` or `lambda`."""
    from samedevice.lint.exprs import evaluate

    func = Func(node, frame.file, frame.module)
    func.closure = frame if frame.func is not None else None
    func.defaults = [evaluate(run, d, frame) for d in node.args.defaults]
    for parameter, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
        if default is not None:
            func.kwdefaults[parameter.arg] = evaluate(run, default, frame)
    for decorator in getattr(node, "decorator_list", ()):
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
        if name in ("staticmethod", "classmethod"):
            func.kind = name
        elif name in ("property", "cached_property"):
            func.kind = "property"
        elif name in ("setter", "deleter", "getter"):
            func.kind = name
        elif name not in TRANSPARENT:
            func.opaque = True
    return func


@lru_cache(maxsize=64)
def yield_lines(text: str) -> list[int]:
    """The lines of a file that have the word `yield`."""
    lines, line, at = [], 1, 0
    while (found := text.find("yield", at)) >= 0:
        line += text.count("\n", at, found)
        lines.append(line)
        at = found + 1
    return lines


def is_generator(node: Any, text: str) -> bool:
    """Whether a function's own body yields; `text` is that of its file."""
    known = getattr(node, "samedevice_generator", None)
    if known is None:
        known = False
        # Most functions have no such word in their lines and need not be searched.
        lines = yield_lines(text)
        index = bisect_left(lines, node.lineno)
        near = index < len(lines) and lines[index] <= node.end_lineno
        pending: list[ast.AST] = list(node.body) if near else []
        while pending:
            part = pending.pop()
            if isinstance(part, ast.Yield | ast.YieldFrom):
                known = True
                break
            if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
                pending.extend(ast.iter_child_nodes(part))
        node.samedevice_generator = known
    return bool(known)


def defaulted(value: Value, name: str, func: Func, site: Site, inner: Frame) -> Value:
    """A parameter's default value, which remembers the call that left the argument out."""
    if isinstance(value, Const) and isinstance(value.value, str):
        return Const(value.value, value.site, Event("default", site, inner.stack[:-1], name, extra=func))
    if isinstance(value, Device):
        return Device(value.dev, value.site, Event("default", site, inner.stack[:-1], name, extra=func))
    return value


def make_class(run: Run, node: ast.ClassDef, frame: Frame) -> Value:
    """The class value of a `class` statement."""
    from samedevice.lint import outline
    from samedevice.lint.exprs import evaluate
    from samedevice.lint.flow import exec_block

    cls = Class(node.name, node, frame.file, frame.module)
    for base in node.bases:
        if not run.loads:
            names = outline.bases_of(run, base, frame)
            if names is not None:
                cls.external.extend(names)
                cls.partial = True
                continue
        value = evaluate(run, base, frame)
        cls.bases.append(value)
        if isinstance(value, Class):
            cls.mro.extend(c for c in value.mro if c not in cls.mro)
            cls.external.extend(value.external)
        elif isinstance(value, Ext):
            cls.external.append(value.name)
        else:
            cls.external.append("?" + ast.unparse(base).rpartition(".")[2])
    body = Frame(
        frame.module, frame.func, frame.stack, frame if frame.func is not None else None, frame.depth
    )
    body.file, body.name = frame.file, node.name
    body.func = None
    if frame.func is not None:
        body.parent = frame
    exec_block(run, node.body, body)
    cls.body = body.locals
    for value in cls.body.values():
        if isinstance(value, Func):
            value.cls = cls
            value.closure = frame if frame.func is not None else None
    for decorator in node.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
        if name in ("dataclass", "define", "frozen", "attrs"):
            cls.dataclass = []
    if "typing.NamedTuple" in cls.external:
        cls.dataclass = []
    inherited = next((c.dataclass for c in cls.mro[1:] if c.dataclass is not None), None)
    if cls.dataclass is not None or inherited is not None:
        fields: dict[str, Value | None] = dict(inherited or [])
        for statement in node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                fields[statement.target.id] = cls.body.get(statement.target.id)
        cls.dataclass = list(fields.items())
    return cls


def make_super(run: Run, args: list[Value], frame: Frame) -> Value:
    """`super()` or `super(Class, self)`."""
    if len(args) == 2 and isinstance(args[0], Class):
        return Super(args[0], args[1])
    scope: Frame | None = frame
    while scope is not None and (scope.cls is None or scope.self_value is None):
        scope = scope.parent
    if scope is None or scope.self_value is None:
        return UNKNOWN
    return Super(scope.cls, scope.self_value)


def bind(self_value: Value, func: Value) -> Value:
    """A function found on a class, as seen from an instance."""
    if isinstance(func, Func):
        if func.kind == "staticmethod":
            return func
        if func.kind == "classmethod":
            return Bound(
                self_value.cls
                if isinstance(self_value, Instance) and self_value.cls is not None
                else self_value,
                func,
            )
        return Bound(self_value, func)
    return func


def get_instance_attribute(run: Run, owner: Instance, name: str, node: ast.AST, frame: Frame) -> Value:
    """`instance.name`."""
    from samedevice.lint import builtin_objects, calls, modules

    value = owner.cells.get(name)
    if value is not None:
        found: Value = value
        return found
    if name == "__class__":
        return owner.cls if owner.cls is not None else UNKNOWN
    if owner.cls is not None:
        defined = owner.cls.find(name)
        if defined is not None:
            member = defined[1]
            if isinstance(member, Func) and member.kind == "property":
                return calls.invoke(run, member, owner, [], {}, node, frame)
            return bind(owner, member)
    if modules.is_module(owner):
        known = modules.get_attribute(run, owner, name)
        if known is not None:
            return known
    elif owner.builtin is not None:
        known = builtin_objects.get_attribute(run, owner, name)
        if known is not None:
            return known
    missing = Unknown(f"self.{name}")
    run.trail.write(owner.cells, name, missing)
    return missing


def get_class_attribute(run: Run, owner: Class, name: str, node: ast.AST, frame: Frame) -> Value:
    """`Class.name`."""
    defined = owner.find(name)
    if defined is not None:
        member = defined[1]
        if isinstance(member, Func) and member.kind == "classmethod":
            return Bound(owner, member)
        return member
    if name == "apply" and owner.is_a(frozenset({"torch.autograd.Function"})):
        from samedevice.lint import autograd

        return autograd.apply_of(run, owner)
    if name == "__name__":
        return Const(owner.name)
    return Unknown(name)


def get_super_attribute(run: Run, owner: Super, name: str, node: ast.AST, frame: Frame) -> Value:
    """`super().name`."""
    self_value = owner.self_value
    cls = self_value.cls if isinstance(self_value, Instance) else self_value
    if isinstance(cls, Class):
        after = cls.mro[cls.mro.index(owner.cls) + 1 :] if owner.cls in cls.mro else []
        for candidate in after:
            member = candidate.body.get(name)
            if member is not None:
                from samedevice.lint import calls

                if (
                    isinstance(member, Func)
                    and member.kind == "property"
                    and isinstance(self_value, Instance)
                ):
                    return calls.invoke(run, member, self_value, [], {}, node, frame)
                return bind(self_value, member)
    if isinstance(self_value, Instance):
        return Method(self_value, name)
    return UNKNOWN


def instantiate(
    run: Run, cls: Class, args: list[Value], kwargs: dict[str, Value], node: ast.AST, frame: Frame
) -> Value:
    """`Class(...)`."""
    from samedevice.lint import calls, modules

    instance = Instance(cls, None, run.event("created", node, frame, cls.name))
    if any(
        name.startswith(("enum.", "builtins.dict", "builtins.int", "builtins.str", "collections."))
        for name in cls.external
    ):
        return Unknown(cls.name)
    if modules.is_module(instance):
        modules.begin(run, instance)
        if run.shallow and len(run.active) > 0 and not run.allowed(cls):
            instance.opaque = True
            return instance
    init = cls.find("__init__")
    if init is not None and isinstance(init[1], Func):
        depth = frame.depth
        if depth >= run.max_depth:
            instance.opaque = True
            return instance
        calls.invoke(run, init[1], instance, args, kwargs, node, frame)
        return instance
    if cls.dataclass is not None:
        fill_dataclass(run, instance, cls, args, kwargs, node, frame)
        return instance
    if modules.is_module(instance):
        modules.builtin_init(run, instance, args, kwargs, node, frame)
    return instance


def fill_dataclass(
    run: Run,
    instance: Instance,
    cls: Class,
    args: list[Value],
    kwargs: dict[str, Value],
    node: ast.AST,
    frame: Frame,
) -> None:
    """The generated `__init__` of a dataclass or named tuple."""
    from samedevice.lint import calls

    unsure = "*" in kwargs or "**" in kwargs
    for index, (name, default) in enumerate(cls.dataclass or []):
        if index < len(args):
            value = args[index]
        elif name in kwargs:
            value = kwargs[name]
        elif default is None or unsure:
            value = Unknown(name)
        else:
            value = default
            if isinstance(default, Instance) and default.builtin == "dataclasses.field":
                factory = default.cells.get("#factory")
                value = (
                    calls.call(run, factory, [], {}, node, frame)
                    if factory is not None
                    else default.cells.get("#default", Unknown(name))
                )
        run.trail.write(instance.cells, name, value)
    post = cls.find("__post_init__")
    if post is not None and isinstance(post[1], Func):
        calls.invoke(run, post[1], instance, [], {}, node, frame)


def set_attribute(run: Run, owner: Value, name: str, value: Value, node: ast.AST, frame: Frame) -> None:
    """`owner.name = value`."""
    from samedevice.lint import modules

    write = run.trail.write
    if isinstance(owner, Instance):
        if owner.cls is not None:
            setter = property_setter(owner.cls, name)
            if setter is not None:
                from samedevice.lint import calls

                calls.invoke(run, setter, owner, [value], {}, node, frame)
                return
        if modules.is_module(owner):
            value = modules.register(run, owner, name, value, node, frame)
        value = hold(run, owner, name, value, node, frame)
        write(owner.cells, name, value)
    elif isinstance(owner, Param):
        if name == "data" and isinstance(value, Tensor):
            copied = value.copy()
            copied.moved = run.event("assigned", node, frame, f".{name} =", extra=value)
            write(owner.cells, "t", copied)
    elif isinstance(owner, Tensor):
        if name == "data" and isinstance(value, Tensor):
            owner.dev = None
    elif isinstance(owner, Module):
        write(owner.env, name, value)
    elif isinstance(owner, Class):
        write(owner.body, name, value)
    elif isinstance(owner, Unknown) and owner is not UNKNOWN:
        if owner.attrs is None:
            owner.attrs = {}
        write(owner.attrs, name, value)


def hold(run: Run, owner: Instance, name: str, value: Value, node: ast.AST, frame: Frame) -> Value:
    """Note on a tensor or module that an attribute holds it."""
    if isinstance(value, Tensor):
        if value.held is not None and value.held.kind == "attribute":
            value = value.copy()
        value.held = run.event("attribute", node, frame, name, extra=owner)
    elif isinstance(value, Instance) and "#held" not in value.cells:
        run.trail.write(value.cells, "#held", run.event("attribute", node, frame, name, extra=owner))
    elif isinstance(value, Seq | Dict) and value.birth is not None and value.birth.extra is None:
        value.birth.extra = run.event("attribute", node, frame, name, extra=owner)
    return value


def property_setter(cls: Class, name: str) -> Func | None:
    """The setter of a property."""
    found = cls.find(f"setter {name}")
    return found[1] if found is not None and isinstance(found[1], Func) else None


def set_instance_item(
    run: Run, owner: Instance, key: Value, value: Value, target: ast.Subscript, frame: Frame
) -> None:
    """`instance[key] = value`."""
    from samedevice.lint import builtin_objects, calls

    if owner.cls is not None:
        found = owner.cls.find("__setitem__")
        if found is not None and isinstance(found[1], Func):
            calls.invoke(run, found[1], owner, [key, value], {}, target, frame)
            return
    builtin_objects.set_item(run, owner, key, value, target, frame)


def get_instance_item(run: Run, owner: Instance, key: Value, node: ast.AST, frame: Frame) -> Value:
    """`instance[key]`."""
    from samedevice.lint import builtin_objects, calls

    if owner.cls is not None:
        found = owner.cls.find("__getitem__")
        if found is not None and isinstance(found[1], Func):
            return calls.invoke(run, found[1], owner, [key], {}, node, frame)
    return builtin_objects.get_item(run, owner, key, node, frame)


__all__ = ["NONE", "NUM", "api", "instantiate", "make_class", "make_function"]
