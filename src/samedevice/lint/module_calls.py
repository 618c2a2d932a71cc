"""Calling modules and other objects: hooks, replicas, `forward`."""

from __future__ import annotations

import ast

from samedevice.lint import meet, modules
from samedevice.lint.devices import CUDA, REPLICA
from samedevice.lint.meet import Operand
from samedevice.lint.run import Frame, Run
from samedevice.lint.state import leaves
from samedevice.lint.tensors import tensor_of
from samedevice.lint.values import (
    Const,
    Dict,
    Func,
    Instance,
    Seq,
    Tensor,
    Unknown,
    Value,
)


def with_replicas(
    run: Run,
    wrapper: Instance,
    model: Instance,
    args: list[Value],
    kwargs: dict[str, Value],
    node: ast.AST,
    frame: Frame,
) -> Value:
    """DataParallel: inputs and parameters on each replica's GPU, plain attributes where they are."""
    dev = modules.device_of(model)
    stray = next(
        (
            v
            for _, v in modules.parameters(model, True)
            if (t := tensor_of(v)) is not None and t.dev is not None and t.dev.is_cpu
        ),
        None,
    )
    if stray is not None and dev is not None and dev.is_cpu:
        tensor = tensor_of(stray)
        assert tensor is not None
        meet.simple(
            run,
            "data-parallel",
            "DataParallel",
            node,
            frame,
            Operand(tensor, stray, None),
            culprit=model.birth,
            wrapper=wrapper,
            module=model,
            wanted=CUDA,
        )
    mark = run.trail.mark()

    def change(value: Value) -> Value:
        tensor = tensor_of(value)
        if tensor is None:
            return value
        copied = tensor.copy()
        copied.dev = REPLICA
        return copied

    def scatter(value: Value) -> Value:
        tensor = tensor_of(value)
        return change(value) if tensor is not None else value

    if dev is None or not modules.complete(model):
        return Unknown()
    modules.apply(run, model, change, None, node, frame, set())
    run.replicating += 1
    try:
        result = call_instance(
            run, model, [scatter(a) for a in args], {k: scatter(v) for k, v in kwargs.items()}, node, frame
        )
    finally:
        run.replicating -= 1
        run.trail.rewind(mark)
    gathered = tensor_of(result)
    if gathered is not None:
        whole = gathered.copy()
        whole.dev = CUDA
        return whole
    for tensor in leaves(result):
        tensor.dev = CUDA
    return result


def call_instance(
    run: Run, instance: Instance, args: list[Value], kwargs: dict[str, Value], node: ast.AST, frame: Frame
) -> Value:
    """`instance(...)`."""
    from samedevice.lint import builtin_objects, calls, layers

    if instance.builtin == "torch.nn.DataParallel":
        model = instance.cells.get("module")
        return (
            with_replicas(run, instance, model, args, kwargs, node, frame)
            if isinstance(model, Instance)
            else Unknown()
        )
    if instance.builtin == "torch.nn.parallel.DistributedDataParallel":
        model = instance.cells.get("module")
        return calls.call(run, model, args, kwargs, node, frame) if isinstance(model, Instance) else Unknown()
    if instance.builtin == "torch.jit.traced":
        model = instance.cells.get("#module")
        return calls.call(run, model, args, kwargs, node, frame) if isinstance(model, Instance) else Unknown()
    if instance.cls is not None:
        if modules.is_module(instance):
            args, kwargs = run_hooks(run, instance, args, kwargs, node, frame)
            name = "forward"
        else:
            name = "__call__"
        found = instance.cls.find(name)
        if modules.is_module(instance):
            own = instance.cls.find("__call__")
            found = own if own is not None else found
        if found is not None and isinstance(found[1], Func):
            if instance.opaque or (
                run.shallow and modules.is_module(instance) and run.entry_instance is not instance
            ):
                return Unknown()
            return calls.invoke(run, found[1], instance, args, kwargs, node, frame)
        if not modules.is_module(instance):
            return calls.unknown_call(run, Unknown(instance.class_name), args, kwargs, node, frame)
        if modules.base_builtin(instance) is None or any(n.startswith("?") for n in instance.cls.external):
            return Unknown()
    if modules.is_module(instance):
        if instance.cls is None:
            args, kwargs = run_hooks(run, instance, args, kwargs, node, frame)
        return layers.forward(run, instance, args, kwargs, node, frame)
    return builtin_objects.call_object(run, instance, args, kwargs, node, frame)


def run_hooks(
    run: Run, instance: Instance, args: list[Value], kwargs: dict[str, Value], node: ast.AST, frame: Frame
) -> tuple[list[Value], dict[str, Value]]:
    """Forward pre-hooks may exchange the arguments."""
    from samedevice.lint import calls

    for hook, with_kwargs in instance.cells.get("#hooks") or ():
        packed = Seq("tuple", tuple(args))
        if with_kwargs:
            table = Dict()
            table.cells.update({k: v for k, v in kwargs.items() if k not in ("*", "**")})
            result = calls.call(run, hook, [instance, packed, table], {}, node, frame)
            if (
                isinstance(result, Seq)
                and len(result.items) == 2
                and isinstance(result.items[0], Seq)
                and result.items[0].rest is None
            ):
                args = list(result.items[0].items)
                if isinstance(result.items[1], Dict):
                    kwargs = {str(k): v for k, v in result.items[1].cells.items()}
            elif not (isinstance(result, Const) and result.value is None):
                args, kwargs = [Unknown() for _ in args], {k: Unknown() for k in kwargs}
        else:
            result = calls.call(run, hook, [instance, packed], {}, node, frame)
            if isinstance(result, Seq) and result.rest is None:
                args = list(result.items)
            elif isinstance(result, Const) and result.value is None:
                pass
            elif isinstance(result, Tensor):
                args = [result]
            else:
                args = [Unknown() for _ in args]
    return args, kwargs
