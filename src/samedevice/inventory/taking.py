"""`samedevice.audit`: looks at objects and says where their tensors are."""

import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any

from samedevice.inventory.expect import StrayTensors, strays
from samedevice.inventory.record import Inventory
from samedevice.inventory.walk import Walker


def audit(*objects: Any, expect: str | Mapping[str, str] | None = None, **named: Any) -> Inventory:
    """Where every tensor of `objects` is: parameters, buffers, plain attributes, items of containers,
    closures, gradients, optimizer state.

        print(samedevice.audit(model, optimizer, ema, loss))
        samedevice.audit(model, optimizer, expect="cuda:0")

    Objects are called as the caller's variables are; `audit(net=model.module)` gives a name.

    Args:
        expect: the device on which all has to be ("cuda" is any GPU), or a mapping of path to
            device ("model.encoder": "cuda:0"), the longest fitting path wins.

    Raises:
        StrayTensors: something is not where `expect` wants it; lists each with its rule.
    """
    names = _names(objects, sys._getframe(1))
    names.extend(named.items())
    inventory = Inventory(Walker().sections(names))
    if expect is not None:
        wanted = expect if isinstance(expect, Mapping) else str(expect)
        found = tuple(strays(inventory, wanted))
        if found:
            raise StrayTensors(found)
    return inventory


def _names(objects: tuple[Any, ...], frame: FrameType) -> list[tuple[str, Any]]:
    """The variable that holds each object where `audit` was called, else its class's name."""
    taken: set[str] = set()
    named = []
    for value in objects:
        name = next(
            (n for space in (frame.f_locals, frame.f_globals) for n, v in space.items() if v is value),
            type(value).__name__.lower(),
        )
        unique, count = name, 1
        while unique in taken:
            count += 1
            unique = f"{name}_{count}"
        taken.add(unique)
        named.append((unique, value))
    return named
