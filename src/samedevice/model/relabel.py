"""Diagnostics with other names for their files: a notebook's cells, a container's folders."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from samedevice.model.diagnostic import Location

Record = TypeVar("Record")


def relabelled(record: Record, name: Callable[[str], str]) -> Record:
    """The record with `name(path)` in the place of each path of its locations and edits."""
    result: Record = _changed(record, lambda location: replace(location, path=name(location.path)), name)
    return result


def relocated(record: Record, place: Callable[[Location], Location]) -> Record:
    """The record with `place(location)` in the place of each of its locations."""
    result: Record = _changed(record, place, lambda path: path)
    return result


def _changed(thing: Any, place: Callable[[Location], Location], name: Callable[[str], str]) -> Any:
    if isinstance(thing, Location):
        return place(thing)
    if isinstance(thing, tuple):
        return tuple(_changed(item, place, name) for item in thing)
    if is_dataclass(thing) and not isinstance(thing, type):
        changes = {f.name: _changed(getattr(thing, f.name), place, name) for f in fields(thing)}
        if "path" in changes and isinstance(changes["path"], str):
            changes["path"] = name(changes["path"])
        return replace(thing, **changes)
    return thing
