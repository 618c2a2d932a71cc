"""What at a given line is in the right place already, so that a new tensor can follow it."""

import ast
from collections.abc import Callable
from types import FrameType
from typing import Any

from samedevice.program.bindings import parameters
from samedevice.program.frames import FUNCTIONS, Spot, scope_of
from samedevice.program.values import instance_dict, is_module, is_tensor


def anchor_in(
    spot: Spot, frame: FrameType | None, device: str, device_of: Callable[[Any], str | None]
) -> str | None:
    """An expression like `x.device` that gives `device` at `spot`; None when nothing is known to.

    With the live frame the arguments and variables themselves are asked; else only a parameter
    that is called `device` will do.
    """
    node = spot.statement
    scope = None if node is None else scope_of(node)
    names = [a.arg for a in parameters(scope)] if isinstance(scope, FUNCTIONS) else []
    if frame is None:
        return "device" if "device" in names else None
    known = dict(frame.f_locals)
    born = spot.line
    for name in names:
        if is_tensor(known.get(name)) and device_of(known[name]) == device:
            return f"{name}.device"
    bound = _bound_above(scope, born)
    for name, value in known.items():
        if name in bound and name not in names and is_tensor(value) and device_of(value) == device:
            return f"{name}.device"
    owner = known.get(names[0]) if names else None
    if owner is not None and is_device(instance_dict(owner).get("device"), device):
        return f"{names[0]}.device"
    for space in (known, frame.f_globals):
        for name in ("device", "dev", "DEVICE"):
            if is_device(space.get(name), device):
                return name
    if is_module(owner):
        for name, value in instance_dict(owner).get("_parameters", {}).items():
            if value is not None and device_of(value) == device:
                return f"{names[0]}.{name}.device"
        for name, child in instance_dict(owner).get("_modules", {}).items():
            weight = instance_dict(child).get("_parameters", {}).get("weight") if child is not None else None
            if weight is not None and device_of(weight) == device:
                return f"{names[0]}.{name}.weight.device"
    for name in names:
        if is_module(known.get(name)):
            first = next(iter(known[name].parameters()), None)
            if first is not None and device_of(first) == device:
                return f"next({name}.parameters()).device"
    return None


def _bound_above(scope: ast.AST | None, line: int) -> set[str]:
    """Names stored in the scope above the line."""
    if scope is None:
        return set()
    return {
        n.id
        for n in ast.walk(scope)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.lineno < line
    }


def is_device(value: Any, device: str) -> bool:
    """A device or device string that means `device` ("cuda" means cuda:0)."""
    if type(value).__name__ != "device" and not isinstance(value, str):
        return False
    text = str(value)
    return text == device or (text == "cuda" and device == "cuda:0")
