"""Diagnostics with other names for their files: a notebook's cells, a container's folders."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from samedevice.model.diagnostic import Location

Record = TypeVar("Record")


def relabelled(record: Record, name: Callable[[str], str]) -> Record:
    """The record with `name(path)` in the place of each path of its locations and edits."""
    result: Record = _relabelled(record, name)
    return result


def _relabelled(thing: Any, name: Callable[[str], str]) -> Any:
    if isinstance(thing, Location):
        return replace(thing, path=name(thing.path))
    if isinstance(thing, tuple):
        return tuple(_relabelled(item, name) for item in thing)
    if is_dataclass(thing) and not isinstance(thing, type):
        changes = {f.name: _relabelled(getattr(thing, f.name), name) for f in fields(thing)}
        if "path" in changes and isinstance(changes["path"], str):
            changes["path"] = name(changes["path"])
        return replace(thing, **changes)
    return thing
