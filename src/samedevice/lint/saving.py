"""`torch.save` and `torch.load`: what a program saves, it gets back where it was."""

from __future__ import annotations

import ast
from typing import Any

from samedevice.lint import tensors, torch_calls
from samedevice.lint.run import Frame, Run
from samedevice.lint.tensors import tensor_of
from samedevice.lint.values import (
    NONE,
    UNKNOWN,
    Array,
    Const,
    Device,
    Dict,
    Num,
    Seq,
    Tensor,
    Unknown,
    Value,
)


def load(
    run: Run, name: str, args: torch_calls.Args, kwargs: torch_calls.Kwargs, node: ast.AST, frame: Frame
) -> Value:
    """`torch.load`: what was saved under this name in the program, where it was then."""
    where = kwargs.get("map_location", args[1] if len(args) > 1 else None)
    saved = run.saved.get(path_key(args[0] if args else UNKNOWN))
    if saved is None:
        return Unknown("loaded")
    device = (
        None
        if where is None or (isinstance(where, Const) and where.value is None)
        else tensors.device_value(where, frame)
    )
    event = run.event("loaded", node, frame, "torch.load")
    return restored(saved, event, device, where is None)


def restored(value: Value, event: Any, device: Device | None, as_saved: bool, depth: int = 4) -> Value:
    """A saved structure, as it comes back."""
    tensor = tensor_of(value)
    if tensor is not None:
        result = Tensor(
            tensor.dev if as_saved else (None if device is None else device.dev), tensor.rank, event
        )
        result.choice = device
        return result
    if depth and isinstance(value, Dict):
        table = Dict()
        for key, item in value.cells.items():
            if isinstance(item, Value):
                table.cells[key] = restored(item, event, device, as_saved, depth - 1)
        return table
    if depth and isinstance(value, Seq):
        rest = value.rest
        return Seq(
            value.kind,
            tuple(restored(i, event, device, as_saved, depth - 1) for i in value.items),
            None if rest is None else restored(rest, event, device, as_saved, depth - 1),
        )
    return value if isinstance(value, Const | Num | Array) else Unknown("loaded")


def save(
    run: Run, name: str, args: torch_calls.Args, kwargs: torch_calls.Kwargs, node: ast.AST, frame: Frame
) -> Value:
    """`torch.save`: remembered under the path it was given."""
    if len(args) > 1:
        run.saved[path_key(args[1])] = frozen(args[0])
    return NONE


def frozen(value: Value, depth: int = 4) -> Value:
    """A copy of a structure as it is now."""
    tensor = tensor_of(value)
    if tensor is not None:
        return tensor.copy()
    if depth and isinstance(value, Dict):
        table = Dict()
        for key, item in value.cells.items():
            if isinstance(item, Value):
                table.cells[key] = frozen(item, depth - 1)
        return table
    if depth and isinstance(value, Seq):
        rest = value.rest
        return Seq(
            value.kind,
            tuple(frozen(i, depth - 1) for i in value.items),
            None if rest is None else frozen(rest, depth - 1),
        )
    return value


def path_key(value: Value) -> object:
    """What identifies a file: its constant name, or the value that names it."""
    if isinstance(value, Const):
        return ("name", value.value)
    if isinstance(value, Num) and value.tag:
        return ("template", value.tag)
    return value
