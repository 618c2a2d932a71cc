"""Reversible changes of attributes: everything is undone on leaving, to the attribute."""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from samedevice.inherit import Finder

_ABSENT: Final = object()


class Patches:
    """A stack of replaced attributes and dictionary items.

    `undo` restores them in reverse order; what did not exist before is deleted again, and a value
    that came from a base class is not left behind on the class.
    """

    def __init__(self) -> None:
        self._undo: list[tuple[str, Any, Any, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> Any:
        """Replace `owner.name`; returns the value that callers saw before (None if absent)."""
        seen = getattr(owner, name, None)
        try:
            old = vars(owner).get(name, _ABSENT)
        except TypeError:
            old = seen
        self._undo.append(("attribute", owner, name, old))
        setattr(owner, name, value)
        return seen

    def set_item(self, mapping: Any, key: Any, value: Any) -> Any:
        """Replace `mapping[key]`; returns the value before (None if absent)."""
        old = mapping.get(key, _ABSENT)
        self._undo.append(("item", mapping, key, old))
        mapping[key] = value
        return None if old is _ABSENT else old

    def replaced_attributes(self) -> list[tuple[Any, str, Any]]:
        """(owner, name, value before) of every attribute that was there before it was replaced."""
        return [
            (owner, name, old)
            for kind, owner, name, old in self._undo
            if kind == "attribute" and old is not _ABSENT
        ]

    def on_undo(self, action: Any) -> None:
        """Call `action()` when everything is undone, in its place of the reverse order."""
        self._undo.append(("call", action, None, None))

    def on_import(self, name: str, action: Callable[[ModuleType], None]) -> None:
        """Call `action(module)` now, or when the program imports the module."""
        if name in sys.modules:
            action(sys.modules[name])
            return
        finder = Finder(name, action)
        sys.meta_path.insert(0, finder)
        # At the interpreter's end the list of finders is gone already.
        self.on_undo(lambda: sys.meta_path.remove(finder) if finder in (sys.meta_path or ()) else None)

    def undo(self) -> None:
        """Restore everything; safe to call twice."""
        while self._undo:
            kind, owner, name, old = self._undo.pop()
            if kind == "call":
                owner()
            elif kind == "item":
                if old is _ABSENT:
                    owner.pop(name, None)
                else:
                    owner[name] = old
            elif old is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, old)
