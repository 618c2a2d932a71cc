"""Functions of torch that make tensors."""

from __future__ import annotations

import ast

from samedevice.lint import methods, tensors, torch_calls
from samedevice.lint.devices import CPU, CUDA, REPLICA, Dev
from samedevice.lint.run import Frame, Run
from samedevice.lint.state import options
from samedevice.lint.tensors import tensor_of
from samedevice.lint.values import (
    UNKNOWN,
    Array,
    Device,
    Rank,
    Tensor,
    Unknown,
    Value,
)
from samedevice.torch_facts import api


def placed(run: Run, device: Device | None) -> Dev | None:
    """The device of something made there; under DataParallel "cuda" is each replica's own."""
    if device is None:
        return None
    if run.replicating and device.dev == CUDA:
        return REPLICA
    return device.dev


def factory(
    run: Run,
    name: str,
    args: torch_calls.Args,
    kwargs: torch_calls.Kwargs,
    node: ast.AST,
    frame: Frame,
    how: int | str | None,
    host: bool = False,
) -> Value:
    """A new tensor."""
    rank = factory_rank(name, how, args, kwargs)
    out = kwargs.get("out")
    if out is not None and tensor_of(out) is not None:
        return out
    kind = "numpy" if name in ("from_numpy", "frombuffer") else "factory"
    given, device = methods.device_argument(run, kwargs, frame)
    data = args[0] if args else kwargs.get("data", UNKNOWN)
    if name in ("tensor", "as_tensor", "asarray", "Tensor") and not given:
        held = next((t for o in options(data) if (t := tensor_of(o)) is not None), None)
        if held is not None:
            return held.derive(held.rank)
    if name in ("as_tensor", "asarray") and not given and not tensors.host_values(data):
        return run.fresh(None, rank, kind, node, frame, f"torch.{name}")
    if name in ("from_numpy",) and tensor_of(data) is not None:
        return Unknown()
    if name.startswith("sparse_") and tensor_of(data) is not None:
        source_tensor = tensor_of(data)
        assert source_tensor is not None
        return source_tensor.derive(-1)
    if name.startswith("sparse_") and isinstance(data, Unknown):
        return run.fresh(None, -1, kind, node, frame, f"torch.{name}")
    if name == "Tensor" and not args:
        return run.fresh(None, 1, kind, node, frame, f"torch.{name}")
    if name == "normal" and any(tensor_of(a) is not None for a in args):
        source = next(t for a in args if (t := tensor_of(a)) is not None)
        return source.derive(source.rank)
    if host:
        dev: Dev | None = CPU
        chosen = None
    elif given:
        dev, chosen = placed(run, device), device
    else:
        dev, chosen = placed(run, run.default), None
    tensor = run.fresh(dev, rank, kind, node, frame, f"torch.{name}")
    tensor.choice = chosen
    if chosen is not None and chosen.source is not None and dev is not None and dev.is_cpu:
        follow_source(tensor, chosen.source)
    if given and run.tracing and device is not None:
        run.tracing[-1].append(tensor.birth)
    methods.generator_check(run, kwargs.get("generator"), dev, node, frame)
    return tensor


def follow_source(made: Tensor, source: Tensor) -> None:
    """What is made on the device of a tensor is there for the same reasons."""
    made.birth, made.batch, made.held, made.moved, made.choice = (
        source.birth,
        source.batch,
        source.held,
        source.moved,
        source.choice,
    )
    made.missed, made.lost, made.bound = source.missed, source.lost, source.bound


def factory_rank(
    name: str, how: int | str | None, args: torch_calls.Args, kwargs: torch_calls.Kwargs
) -> Rank:
    """The rank of a factory's result."""
    if how == "shape":
        if args and isinstance(args[0], Array | Unknown) and name in api.HOST_FACTORIES:
            return None if isinstance(args[0], Unknown) else -1
        return tensors.shape_rank(args, kwargs)
    if how == "size0":
        return tensors.shape_rank(args[:1], kwargs)
    if how == "size":
        size = kwargs.get("size", args[-1] if args else None)
        return tensors.shape_rank([size], {}) if size is not None else None
    if how == "data":
        return tensors.data_rank(args[0] if args else kwargs.get("data"))
    return how if isinstance(how, int) else None


def like(
    run: Run, name: str, args: torch_calls.Args, kwargs: torch_calls.Kwargs, node: ast.AST, frame: Frame
) -> Value:
    """`zeros_like` and its kin."""

    def one(option: Value) -> Value:
        tensor = tensor_of(option)
        if tensor is None:
            given, device = methods.device_argument(run, kwargs, frame)
            if given and device is not None:
                made = run.fresh(placed(run, device), None, "factory", node, frame, f"torch.{name}")
                made.choice = device
                return made
            return Unknown()
        made = Tensor(
            tensor.dev, tensor.rank, run.event("following", node, frame, f"torch.{name}", extra=option)
        )
        made.likely = tensor.likely
        if tensor.dev is not None and tensor.dev.is_cpu:
            made.birth, made.batch, made.held = tensor.birth, tensor.batch, tensor.held
            made.moved, made.choice = tensor.moved, tensor.choice
        return methods.with_device(run, made, kwargs, frame)

    from samedevice.lint.exprs import distribute

    return distribute(args[0] if args else kwargs.get("input", UNKNOWN), one)
