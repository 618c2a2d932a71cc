"""Names that other modules took from torch before virtual GPUs were entered (`from torch import load`).

A replaced function is replaced under every name that a module has for it, and put back on leaving.
"""

import sys
from types import ModuleType
from typing import Any

from samedevice.virtual.patches import Patches

#: torch's own modules are patched where they need it; these hold nothing of torch's
_LEFT_ALONE = frozenset({"torch", "samedevice", "numpy", "scipy", "pandas", "sympy", "_pytest"}) | (
    sys.stdlib_module_names
)


def follow(patches: Patches) -> None:
    """Replace in all modules what `patches` has replaced in torch's."""
    replaced: dict[int, tuple[Any, Any]] = {}
    for owner, name, old in patches.replaced_attributes():
        if isinstance(owner, ModuleType) and callable(old) and owner.__name__.partition(".")[0] == "torch":
            replaced.setdefault(id(old), (old, getattr(owner, name)))
    wanted = replaced.keys()
    for module_name, module in list(sys.modules.items()):
        if module_name.partition(".")[0] in _LEFT_ALONE:
            continue
        names = getattr(module, "__dict__", None)
        if type(names) is not dict or wanted.isdisjoint(map(id, names.values())):
            continue
        for name, value in list(names.items()):
            found = replaced.get(id(value))
            if found is not None and found[0] is value:
                patches.set(module, name, found[1])
