"""Which objects of a running program an audit is about."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from samedevice.inventory.record import Role
from samedevice.inventory.walk import role_of
from samedevice.runtime.structure import holds_tensors

_WANTED = frozenset({Role.MODEL, Role.LOSS, Role.METRIC, Role.COPY, Role.OPTIMIZER})


def objects_of(spaces: Iterable[Mapping[str, Any]]) -> list[tuple[str, Any]]:
    """Models, losses, metrics, averaged copies and optimizers among variables, each once.

    A module that is part of another one found is told there. Without a variable that holds a
    model, those of objects that hold one (a trainer) are taken.
    """
    found: dict[int, tuple[str, Any]] = {}
    for space in spaces:
        for name, value in list(space.items()):
            if not name.startswith("__") and not isinstance(value, type) and _is_wanted(value):
                found.setdefault(id(value), (name, value))
    if not any(isinstance(value, torch.nn.Module) for _, value in found.values()):
        for space in spaces:
            for name, value in list(space.items()):
                for attribute, inner in _members(name, value):
                    if _is_wanted(inner):
                        found.setdefault(id(inner), (f"{name}.{attribute}", inner))
    modules = [value for _, value in found.values() if isinstance(value, torch.nn.Module)]
    inside = {id(part) for module in modules for part in module.modules() if part is not module}
    return _with_unique_names([pair for key, pair in found.items() if key not in inside])


def _is_wanted(value: Any) -> bool:
    try:
        role = role_of(value)
    except Exception:
        return False  # an object that answers `isinstance` with code of its own
    return role in _WANTED and (
        isinstance(value, (torch.nn.Module, torch.optim.Optimizer)) or holds_tensors(value)
    )


def _members(name: str, value: Any) -> Iterable[tuple[str, Any]]:
    own = getattr(value, "__dict__", None)
    if name.startswith("__") or isinstance(value, type) or type(own) is not dict:
        return ()
    return list(own.items()) if type(value).__module__ not in ("builtins", "types") else ()


def _with_unique_names(pairs: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    taken: dict[str, int] = {}
    named = []
    for name, value in pairs:
        taken[name] = taken.get(name, 0) + 1
        named.append((name if taken[name] == 1 else f"{name}_{taken[name]}", value))
    return named
