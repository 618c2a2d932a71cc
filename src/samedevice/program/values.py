"""Looking at live values without running any code of the program."""

import ast
import sys
from collections.abc import Mapping
from types import FrameType, MemberDescriptorType, ModuleType
from typing import Any, Final

MISSING: Final = object()


def is_tensor(value: object) -> bool:
    """Whether it is a `torch.Tensor`; torch is not imported for the question."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_module(value: object) -> bool:
    """Whether it is an `nn.Module`."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def is_optimizer(value: object) -> bool:
    """Whether it is a `torch.optim.Optimizer`."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.optim.Optimizer)


def instance_dict(value: object) -> dict[str, Any]:
    """The object's own attributes; empty when it has none of that kind."""
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return own if isinstance(own, dict) else {}


def attribute(value: object, name: str) -> Any:
    """`value.name` as far as it is stored and not computed, else MISSING."""
    own = instance_dict(value)
    if name in own:
        return own[name]
    if is_module(value):
        for registry in ("_parameters", "_buffers", "_modules"):
            found = own.get(registry, {})
            if name in found:
                return found[name]
    if isinstance(value, ModuleType):
        return MISSING
    fields = getattr(type(value), "_fields", ())
    if isinstance(value, tuple) and name in fields:
        return value[fields.index(name)]
    for base in (value if isinstance(value, type) else type(value)).__mro__:
        if name in base.__dict__:
            found = base.__dict__[name]
            if isinstance(found, MemberDescriptorType):
                try:
                    return found.__get__(value)
                except AttributeError:
                    return MISSING
            return MISSING if hasattr(type(found), "__get__") else found
    return MISSING


def item(value: object, key: object) -> Any:
    """`value[key]` for built-in containers (and what derives from them without changing the look-up)."""
    base: Any = next((kind for kind in (dict, list, tuple) if isinstance(value, kind)), None)
    if base is not None:
        try:
            return base.__getitem__(value, key)
        except (KeyError, IndexError, TypeError):
            return MISSING
    if is_module(value) and isinstance(key, (int, str)):
        children = list(instance_dict(value).get("_modules", {}).values())
        if isinstance(key, str):
            return instance_dict(value).get("_modules", {}).get(key, MISSING)
        return children[key] if -len(children) <= key < len(children) else MISSING
    # Mapping types of packages (BatchEncoding and its kin) keep their items in `data`.
    data = instance_dict(value).get("data")
    return item(data, key) if isinstance(data, dict) and isinstance(value, Mapping) else MISSING


def evaluate(node: ast.AST, names: Mapping[str, Any], globals_: Mapping[str, Any]) -> Any:
    """The value of an expression made of names, attributes and constant subscripts, else MISSING."""
    if isinstance(node, ast.Constant):
        return node.value
    if (
        isinstance(node, ast.UnaryOp)
        and isinstance(node.op, ast.USub)
        and isinstance(node.operand, ast.Constant)
    ):
        return -node.operand.value  # type: ignore[operator]
    if isinstance(node, ast.Name):
        if node.id in names:
            return names[node.id]
        return globals_.get(node.id, MISSING)
    if isinstance(node, ast.Attribute):
        base = evaluate(node.value, names, globals_)
        return MISSING if base is MISSING else attribute(base, node.attr)
    if isinstance(node, ast.Subscript):
        base = evaluate(node.value, names, globals_)
        key = evaluate(node.slice, names, globals_)
        return MISSING if base is MISSING or key is MISSING else item(base, key)
    if isinstance(node, ast.Starred):
        return evaluate(node.value, names, globals_)
    return MISSING


def evaluate_in(node: ast.AST, frame: FrameType) -> Any:
    """`evaluate` with the frame's variables."""
    return evaluate(node, frame.f_locals, frame.f_globals)
