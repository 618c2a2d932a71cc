"""Methods of `nn.Module` and of the containers of torch.nn."""

import ast
from typing import Any

from samedevice.lint import calls, iteration, modules, tensors
from samedevice.lint.devices import CPU, CUDA, META
from samedevice.lint.run import Frame, Run
from samedevice.lint.state import join, options
from samedevice.lint.tensors import tensor_of
from samedevice.lint.values import (
    NONE,
    NUM,
    UNKNOWN,
    Const,
    Device,
    Dict,
    Func,
    Instance,
    Num,
    Param,
    Seq,
    Tensor,
    Unknown,
    Value,
)

Args = list[Value]
Kwargs = dict[str, Value]


def call(
    run: Run, owner: Instance, name: str, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame
) -> Value:
    """`module.name(...)` for a method that torch defines."""
    write = run.trail.write
    if name in ("to", "cuda", "cpu", "xpu", "to_empty"):
        return place(run, owner, name, args, kwargs, node, frame)
    if name in ("eval", "train"):
        mode = Const(False) if name == "eval" else (args[0] if args else kwargs.get("mode", Const(True)))
        set_mode(run, owner, mode, name, node, frame)
        return owner
    if name == "_apply" and args:
        state = owner.cells.get("#apply")
        if state is not None:
            change, event, seen = state
            modules.apply_own(run, owner, change, event, node, frame, seen)
        return owner
    if name == "__init__":
        if modules.is_module(owner):
            if "#reg" not in owner.cells:
                modules.begin(run, owner)
            modules.builtin_init(run, owner, args, kwargs, node, frame)
        return NONE
    if name in ("parameters", "buffers", "named_parameters", "named_buffers"):
        return listed(owner, name)
    if name in ("children", "named_children", "modules", "named_modules"):
        return submodules(owner, name)
    if name == "state_dict":
        table = Dict()
        for key, value in modules.parameters(owner, True):
            table.cells[key] = value
        if not modules.complete(owner):
            from samedevice.lint.values import REST

            table.cells[REST] = UNKNOWN
        table.birth = run.event("state-dict", node, frame, extra=owner)
        return table
    if name == "load_state_dict":
        load_state(run, owner, args, kwargs, node, frame)
        return Unknown()
    if name in ("register_buffer", "register_parameter", "add_module", "register_module"):
        return register(run, owner, name, args, kwargs, node, frame)
    if name in ("get_submodule", "get_parameter", "get_buffer"):
        return by_path(run, owner, args[0] if args else UNKNOWN)
    if name == "register_forward_pre_hook" and args:
        flag = kwargs.get("with_kwargs")
        hooks = owner.cells.get("#hooks") or ()
        write(owner.cells, "#hooks", (*hooks, (args[0], isinstance(flag, Const) and bool(flag.value))))
        return Unknown("hook")
    if name == "apply" and args:
        for module in list(modules.walk(owner))[:12]:
            calls.call(run, args[0], [module], {}, node, frame)
        return owner
    if (
        name == "__setattr__"
        and len(args) == 2
        and isinstance(args[0], Const)
        and isinstance(args[0].value, str)
    ):
        from samedevice.lint import classes

        classes.set_attribute(run, owner, args[0].value, args[1], node, frame)
        return NONE
    if name in ("forward", "__call__"):
        if owner.cls is not None and modules.base_builtin(owner) is None:
            return Unknown()
        from samedevice.lint import layers

        return layers.forward(run, owner, args, kwargs, node, frame)
    if name in ("append", "extend", "insert", "items", "values", "keys", "update"):
        return container(run, owner, name, args, node, frame)
    if name in ("requires_grad_", "half", "float", "double", "bfloat16", "type", "share_memory"):
        return owner
    return Unknown(name)


def place(
    run: Run, owner: Instance, name: str, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame
) -> Value:
    """`to`, `cuda`, `cpu`, `to_empty`."""
    device: Device | None
    if name == "cpu":
        device = Device(CPU, frame.site(node))
    elif name == "cuda":
        from samedevice.lint.methods import cuda_device

        device = cuda_device(args[0] if args else kwargs.get("device"), node, frame)
    elif name == "to_empty":
        value = args[0] if args else kwargs.get("device", UNKNOWN)
        device = tensors.device_value(value, frame)
        for _, held in modules.parameters(owner, True):
            tensor = tensor_of(held)
            if tensor is not None and tensor.dev == META:
                tensor.dev = None
    else:
        kind, device = tensors.move_target(args, kwargs, frame)
        if kind == "dtype":
            return owner
        if args and (tensor := tensor_of(args[0])) is not None:
            device = None if tensor.dev is None else Device(tensor.dev)
    modules.move(run, owner, device, node, frame, name)
    return owner


def set_mode(
    run: Run, owner: Instance, mode: Value, name: str, node: ast.AST, frame: Frame, depth: int = 0
) -> None:
    """`train`/`eval`, through the overrides of `train` that the program has."""
    override = owner.cls.find("train") if owner.cls is not None else None
    active = (
        any(f.node is override[1].node for f in run.active)
        if override is not None and isinstance(override[1], Func)
        else False
    )
    if override is not None and isinstance(override[1], Func) and not active:
        calls.invoke(run, override[1], owner, [mode], {}, node, frame)
        return
    run.trail.write(owner.cells, "training", mode)
    if depth < 8:
        for _, child in list(modules.children(owner)):
            set_mode(run, child, mode, name, node, frame, depth + 1)


def listed(owner: Instance, name: str) -> Value:
    """`parameters()` and its kin."""
    found: list[Value] = []
    for key, value in modules.parameters(owner, "buffers" in name):
        is_param = isinstance(value, Param)
        if is_param is ("parameters" in name):
            found.append(Seq("tuple", (Const(key), value)) if name.startswith("named") else value)
    rest: Value | None = None
    if not modules.complete(owner) or not found:
        rest = Unknown()
    if len(found) > 12:
        rest = found[-1]
        found = found[:12]
    return Seq("list", tuple(found), rest)


def submodules(owner: Instance, name: str) -> Value:
    """`children()`, `modules()` and their kin."""
    found: list[Value] = []
    if "children" in name:
        for key, child in modules.children(owner):
            found.append(Seq("tuple", (Const(key), child)) if name.startswith("named") else child)
    else:
        for module in modules.walk(owner):
            found.append(Seq("tuple", (Num(), module)) if name.startswith("named") else module)
    return Seq("list", tuple(found[:24]), Unknown() if owner.opaque else None)


def load_state(run: Run, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> None:
    """`load_state_dict`: copies, unless `assign=True` exchanges the tensors."""
    run.trail.write(owner.cells, "#loaded", run.event("loaded-state", node, frame))
    assign = kwargs.get("assign", args[2] if len(args) > 2 else None)
    if not (isinstance(assign, Const) and assign.value is True):
        return
    source = args[0] if args else UNKNOWN
    known = dict(source.cells) if isinstance(source, Dict) else {}
    transient = owner_transient(owner)
    for key, value in modules.parameters(owner, True):
        tensor = tensor_of(value)
        if tensor is None or key in transient:
            continue
        new = known.get(key)
        new_tensor = tensor_of(new) if isinstance(new, Value) else None
        changed = tensor.copy()
        changed.dev = new_tensor.dev if new_tensor is not None else None
        if isinstance(value, Param):
            run.trail.write(value.cells, "t", changed)
        else:
            for module in modules.walk(owner):
                for name, held in list(modules.own_tensors(module)):
                    if held is value:
                        run.trail.write(module.cells, name, changed)


def owner_transient(owner: Instance) -> set[str]:
    """Dotted names of the non-persistent buffers."""
    found: set[str] = set()

    def visit(module: Instance, prefix: str, depth: int) -> None:
        registry: dict[str, str] = module.cells.get("#reg") or {}
        found.update(prefix + name for name, kind in registry.items() if kind == "buffer?")
        if depth < 12:
            for name, child in modules.children(module):
                visit(child, f"{prefix}{name}.", depth + 1)

    visit(owner, "", 0)
    return found


def register(
    run: Run, owner: Instance, name: str, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame
) -> Value:
    """`register_buffer`, `register_parameter`, `add_module`."""
    key_value = args[0] if args else kwargs.get("name", UNKNOWN)
    value = (
        args[1] if len(args) > 1 else kwargs.get("tensor", kwargs.get("param", kwargs.get("module", UNKNOWN)))
    )
    key = attribute_name(key_value)
    kind = {"register_buffer": "buffer", "register_parameter": "param"}.get(name, "module")
    if kind == "buffer":
        persistent = kwargs.get("persistent", args[2] if len(args) > 2 else None)
        if isinstance(persistent, Const) and persistent.value is False:
            kind = "buffer?"
    if key is None:
        return NONE
    registry: dict[str, str] = owner.cells.get("#reg") or {}
    run.trail.write(owner.cells, "#reg", {**registry, key: kind})
    for option in options(value):
        if isinstance(option, Tensor) and kind.startswith("buffer"):
            option.buffer, option.module = key, owner
        if isinstance(option, Param) and option.owner is None:
            option.owner, option.name = owner, key
    known = owner.cells.get(key)
    if key.startswith("name:") and isinstance(known, Value):
        value = join(known, value, True)
    run.trail.write(owner.cells, key, value)
    return NONE


def attribute_name(value: Value) -> str | None:
    """The name that a string value gives, also when only its template is known."""
    if isinstance(value, Const) and isinstance(value.value, str):
        return value.value
    if isinstance(value, Num) and value.tag.startswith("name:"):
        return value.tag
    return None


def by_path(run: Run, owner: Instance, path: Value) -> Value:
    """`get_submodule("a.b")`."""
    if not (isinstance(path, Const) and isinstance(path.value, str)):
        return Unknown()
    value: Value = owner
    for part in path.value.split(".") if path.value else []:
        if not isinstance(value, Instance):
            return Unknown()
        found: Any = next((child for name, child in modules.children(value) if name == part), None)
        if found is None:
            found = value.cells.get(part, UNKNOWN)
        value = found
    return value


def container(run: Run, owner: Instance, name: str, args: Args, node: ast.AST, frame: Frame) -> Value:
    """Methods of ModuleList and ModuleDict."""
    table = owner.cells.get("#dict")
    if isinstance(table, Dict):
        from samedevice.lint.methods import dict_method

        return dict_method(run, table, name, args, {}, node, frame)
    items: tuple[Value, ...] = owner.cells.get("#items") or ()
    rest: Value | None = owner.cells.get("#rest")
    if name == "append" and args:
        if len(items) < 8 and rest is None:
            run.trail.write(owner.cells, "#items", (*items, args[0]))
        else:
            run.trail.write(owner.cells, "#rest", args[0] if rest is None else join(rest, args[0], True))
        return owner
    if name == "extend" and args:
        known, more = iteration.items_of(run, args[0], node, frame)
        run.trail.write(owner.cells, "#items", (*items, *known))
        if more is not None:
            run.trail.write(owner.cells, "#rest", more if rest is None else join(rest, more, True))
        return owner
    return Unknown()


__all__ = ["CUDA", "NUM", "call"]
