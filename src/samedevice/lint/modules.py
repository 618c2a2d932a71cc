"""`nn.Module`: what is registered, what a move reaches, what calling one does."""

import ast
from collections.abc import Iterator
from typing import Any

from samedevice.lint import meet, tensors
from samedevice.lint.devices import Dev, same
from samedevice.lint.meet import Operand
from samedevice.lint.run import Frame, Run
from samedevice.lint.state import join, options
from samedevice.lint.tensors import tensor_of
from samedevice.lint.values import (
    NONE,
    NUM,
    UNKNOWN,
    Alts,
    Const,
    Device,
    Dict,
    Event,
    Func,
    Instance,
    Method,
    Native,
    Num,
    Param,
    Seq,
    Tensor,
    Unknown,
    Value,
)
from samedevice.torch_facts import api

NN = "torch.nn."


def is_module(value: Value) -> bool:
    """Whether an instance is an `nn.Module`."""
    if not isinstance(value, Instance):
        return False
    if value.builtin is not None:
        return value.builtin.startswith((NN, "torchmetrics.")) or value.builtin == "torch.jit.traced"
    cls = value.cls
    if cls is None:
        return False
    return any(name in api.MODULE_BASES or name.startswith(NN) for name in cls.external)


def base_builtin(instance: Instance) -> str | None:
    """The class of `torch.nn` that an instance is of or derives from, without the prefix."""
    if instance.builtin is not None:
        return instance.builtin.removeprefix(NN)
    if instance.cls is not None:
        for name in instance.cls.external:
            if name.startswith(NN) and name != "torch.nn.Module":
                return name.removeprefix(NN)
    return None


def begin(run: Run, instance: Instance) -> None:
    """The state that every module has."""
    run.instances.append(instance)
    instance.cells["#reg"] = {}
    instance.cells["training"] = Const(True)


def construct(
    run: Run, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST, frame: Frame
) -> Value:
    """`torch.nn.<name>(...)`."""
    instance = Instance(None, NN + name, run.event("created", node, frame, name))
    begin(run, instance)
    builtin_init(run, instance, args, kwargs, node, frame)
    return instance


def builtin_init(
    run: Run, instance: Instance, args: list[Value], kwargs: dict[str, Value], node: ast.AST, frame: Frame
) -> None:
    """`__init__` of a class of torch.nn, also when called by `super().__init__(...)`."""
    name = base_builtin(instance)
    cells = instance.cells
    if "#reg" not in cells:
        begin(run, instance)
    if name is None:
        return
    if name in ("Sequential", "ModuleList", "ParameterList"):
        fill_list(run, instance, args, node, frame)
    elif name in ("ModuleDict", "ParameterDict"):
        run.trail.write(cells, "#dict", args[0] if args and isinstance(args[0], Dict) else Dict())
    elif name == "DataParallel" or name == "parallel.DistributedDataParallel":
        if args:
            run.trail.write(cells, "module", args[0])
            run.trail.write(cells, "#reg", {"module": "module"})
    elif name in api.PARAMETERS:
        given = kwargs.get("device")
        device = tensors.device_value(given, frame) if given is not None else run.default
        if given is not None and isinstance(given, Const) and given.value is None:
            device = run.default
        if "**" in kwargs:
            device = None
        registry = dict(cells["#reg"])
        bias = kwargs.get("bias")
        for parameter, rank in api.PARAMETERS[name].items():
            if (
                parameter == "bias"
                and bias is not None
                and not (isinstance(bias, Const) and bias.value is True)
            ):
                continue
            tensor = Tensor(
                None if device is None else device.dev,
                rank,
                run.event("parameter", node, frame, parameter, extra=instance),
            )
            tensor.choice = device if given is not None else None
            run.trail.write(cells, parameter, Param(tensor, parameter, instance))
            registry[parameter] = "param"
        for buffer, rank in api.BUFFERS.get(name, {}).items():
            tensor = Tensor(
                None if device is None else device.dev,
                rank,
                run.event("parameter", node, frame, buffer, extra=instance),
            )
            tensor.buffer, tensor.module = buffer, instance
            run.trail.write(cells, buffer, tensor)
            registry[buffer] = "buffer"
        run.trail.write(cells, "#reg", registry)
    elif name in api.LOSS_MODULES:
        registry = dict(cells["#reg"])
        for keyword, position in api.LOSS_MODULES[name].items():
            value = kwargs.get(keyword)
            if value is None and position is not None and position < len(args):
                value = args[position]
            for option in options(value) if value is not None else ():
                if isinstance(option, Tensor):
                    kept = option.copy()
                    kept.buffer = keyword
                    run.trail.write(cells, keyword, kept)
                    registry[keyword] = "buffer"
        run.trail.write(cells, "#reg", registry)
        run.trail.write(cells, "#reduction", kwargs.get("reduction", Const("mean")))


def fill_list(run: Run, instance: Instance, args: list[Value], node: ast.AST, frame: Frame) -> None:
    """The children of a Sequential or ModuleList."""
    from samedevice.lint import iteration

    items: tuple[Value, ...] = tuple(args)
    rest: Value | None = None
    if len(args) == 1 and not is_module(args[0]):
        source = args[0]
        if isinstance(source, Dict):
            items = tuple(v for v in source.cells.values())
        elif isinstance(source, Seq) and source.items and isinstance(source.items[0], Seq):
            items = tuple(
                pair.items[1] for pair in source.items if isinstance(pair, Seq) and len(pair.items) == 2
            )
        else:
            items, rest = iteration.items_of(run, source, node, frame)
    run.trail.write(instance.cells, "#items", items)
    run.trail.write(instance.cells, "#rest", rest)


def register(run: Run, owner: Instance, name: str, value: Value, node: ast.AST, frame: Frame) -> Value:
    """`Module.__setattr__`: parameters, modules and buffers are registered, the rest is not."""
    registry: dict[str, str] = owner.cells.get("#reg") or {}
    kind = None
    for option in options(value):
        if isinstance(option, Param):
            kind = "param"
            if option.owner is None:
                option.owner, option.name = owner, name
        elif is_module(option):
            kind = "module"
        elif isinstance(option, Tensor):
            if registry.get(name, "").startswith("buffer"):
                value = option.copy()
                value.buffer, value.module = name, owner
                return value
            if option.buffer == "Buffer":
                kind = "buffer"
                option.buffer, option.module = name, owner
    if kind is not None and registry.get(name) != kind:
        run.trail.write(owner.cells, "#reg", {**registry, name: kind})
    elif (
        kind is None
        and name in registry
        and not (isinstance(value, Const) and value.value is None)
        and (registry[name] != "module" or not isinstance(value, Unknown))
    ):
        run.trail.write(owner.cells, "#reg", {k: v for k, v in registry.items() if k != name})
    return value


def children(instance: Instance) -> Iterator[tuple[str, Instance]]:
    """The registered submodules."""
    registry: dict[str, str] = instance.cells.get("#reg") or {}
    for name, kind in registry.items():
        if kind == "module":
            for option in options(instance.cells.get(name, UNKNOWN)):
                if isinstance(option, Instance):
                    yield name, option
    for number, item in enumerate(instance.cells.get("#items") or ()):
        for option in options(item):
            if isinstance(option, Instance):
                yield str(number), option
    rest = instance.cells.get("#rest")
    if rest is not None:
        for option in options(rest):
            if isinstance(option, Instance):
                yield "*", option
    table = instance.cells.get("#dict")
    if isinstance(table, Dict):
        for key, item in table.cells.items():
            for option in options(item) if isinstance(item, Value) else ():
                if isinstance(option, Instance):
                    yield str(key), option
    wrapped = instance.cells.get("#module")
    if isinstance(wrapped, Instance):
        yield "#module", wrapped


def walk(instance: Instance, seen: set[int] | None = None) -> Iterator[Instance]:
    """The module and all below it."""
    seen = seen if seen is not None else set()
    if id(instance) in seen or len(seen) > 400:
        return
    seen.add(id(instance))
    yield instance
    for _, child in children(instance):
        yield from walk(child, seen)


def own_tensors(instance: Instance) -> Iterator[tuple[str, Value]]:
    """The module's own parameters and buffers."""
    registry: dict[str, str] = instance.cells.get("#reg") or {}
    for name, kind in registry.items():
        if kind != "module":
            value = instance.cells.get(name)
            for option in options(value) if isinstance(value, Value) else ():
                if isinstance(option, Param | Tensor):
                    yield name, option
    if base_builtin(instance) in ("ParameterList", "ParameterDict"):
        items = [*(instance.cells.get("#items") or ()), instance.cells.get("#rest")]
        for number, item in enumerate(items):
            if isinstance(item, Param):
                yield str(number), item


def parameters(instance: Instance, buffers: bool = False) -> list[tuple[str, Value]]:
    """All parameters (and buffers) below a module, by name."""
    found: list[tuple[str, Value]] = []
    known: set[int] = set()

    def visit(module: Instance, prefix: str, depth: int) -> None:
        if depth > 12 or len(found) > 200:
            return
        for name, value in own_tensors(module):
            if (isinstance(value, Param) or buffers) and id(value) not in known:
                known.add(id(value))
                found.append((prefix + name, value))
        for name, child in children(module):
            visit(child, f"{prefix}{name}.", depth + 1)

    visit(instance, "", 0)
    return found


def complete(instance: Instance) -> bool:
    """Whether all submodules are known, so that their parameters are."""
    return all(not module.opaque for module in walk(instance))


def device_of(instance: Instance) -> Dev | None:
    """The device of a module's parameters, None when unknown or mixed."""
    found: Dev | None = None
    for _, value in parameters(instance, True):
        tensor = tensor_of(value)
        assert tensor is not None
        if tensor.dev is None or (found is not None and not same(found, tensor.dev)):
            return None
        found = tensor.dev
    return found


def move(run: Run, instance: Instance, device: Device | None, node: ast.AST, frame: Frame, text: str) -> None:
    """`Module.to`: parameters and buffers, in place, of everything registered."""
    event = run.event("module-moved", node, frame, text, device=device, extra=instance)
    leftover_meta(run, instance, device, node, frame)

    def change(value: Value) -> Value:
        tensor = tensor_of(value)
        if tensor is None:
            return value
        moved = tensor.copy()
        moved.dev = None if device is None else device.dev
        moved.choice = device
        moved.moved = event
        return moved

    apply(run, instance, change, event, node, frame, set())


def apply(
    run: Run,
    instance: Instance,
    change: Any,
    event: Event | None,
    node: ast.AST,
    frame: Frame,
    seen: set[int],
) -> None:
    """`Module._apply`, with the overrides that the program has."""
    from samedevice.lint import calls

    if id(instance) in seen:
        return
    seen.add(id(instance))
    override = instance.cls.find("_apply") if instance.cls is not None else None
    if event is not None:
        run.trail.write(instance.cells, "#moves", (*(instance.cells.get("#moves") or ()), event))
    if override is not None and isinstance(override[1], Func):
        native = Native("fn", lambda args, kwargs, n, f: change(args[0]) if args else UNKNOWN)
        native_state = (change, event, seen)
        run.trail.write(instance.cells, "#apply", native_state)
        calls.invoke(run, override[1], instance, [native], {}, node, frame)
        return
    apply_own(run, instance, change, event, node, frame, seen)


def apply_own(
    run: Run,
    instance: Instance,
    change: Any,
    event: Event | None,
    node: ast.AST,
    frame: Frame,
    seen: set[int],
) -> None:
    """What `nn.Module._apply` itself does."""
    for name, value in list(own_tensors(instance)):
        if isinstance(value, Param):
            run.trail.write(value.cells, "t", change(value))
            continue
        whole = instance.cells.get(name)
        if isinstance(whole, Alts):
            changed = tuple(change(o) if isinstance(o, Tensor) else o for o in whole.options)
            run.trail.write(instance.cells, name, Alts(changed, whole.tags))
        else:
            run.trail.write(instance.cells, name, change(value))
    for _, child in list(children(instance)):
        apply(run, child, change, event, node, frame, seen)
    if instance.opaque:
        run.trail.write(instance.cells, "#opaque-move", event)


def leftover_meta(run: Run, instance: Instance, device: Device | None, node: ast.AST, frame: Frame) -> None:
    """A meta tensor has no data to move."""
    if device is None or device.dev.type == "meta":
        return
    for name, value in parameters(instance, True):
        tensor = tensor_of(value)
        if tensor is not None and tensor.dev is not None and tensor.dev.type == "meta":
            loaded = instance.cells.get("#loaded")
            meet.simple(
                run,
                "meta",
                "Module.to",
                node,
                frame,
                Operand(tensor, value, None),
                name=name,
                culprit=instance.birth,
                loaded=loaded,
                module=instance,
            )
            return


def get_attribute(run: Run, owner: Instance, name: str) -> Value | None:
    """An attribute that `nn.Module` or a class of torch.nn gives."""
    if name == "device" and owner.cls is not None:
        dev = device_of(owner)
        return Device(dev) if dev is not None else None
    if name in METHODS:
        return Method(owner, name)
    if name == "module" and owner.builtin == "torch.nn.DataParallel":
        return None
    if owner.builtin is not None and owner.builtin.startswith("torchmetrics."):
        return Method(owner, name)
    if base_builtin(owner) in ("ModuleList", "Sequential", "ModuleDict", "ParameterList", "ParameterDict"):
        if name in ("append", "extend", "insert", "items", "values", "keys", "update"):
            return Method(owner, name)
        for child_name, child in children(owner):
            if child_name == name:
                return child
    if owner.builtin is not None and name in (
        "in_features",
        "out_features",
        "num_features",
        "embedding_dim",
        "hidden_size",
        "padding_idx",
    ):
        return NUM
    if owner.builtin is not None and name == "bias":
        return NONE
    return None


METHODS = frozenset(
    "to cuda cpu xpu half float double bfloat16 type eval train parameters named_parameters buffers named_buffers children "
    "named_children modules named_modules state_dict load_state_dict register_buffer register_parameter register_module "
    "add_module apply zero_grad requires_grad_ get_submodule get_parameter get_buffer register_forward_pre_hook "
    "register_forward_hook register_full_backward_hook register_full_backward_pre_hook to_empty share_memory _apply __init__ "
    "__setattr__ __setstate__ extra_repr compile forward __call__ _load_from_state_dict save_hyperparameters log log_dict print "
    "register_state_dict_pre_hook post_init update compute reset __getattr__ __delattr__".split()
) - {"update", "compute", "reset"}  # fmt: skip


__all__ = ["Num", "join"]
