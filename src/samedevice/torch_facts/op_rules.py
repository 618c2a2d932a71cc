"""Which ATen overloads check their operands' devices, and how. Data from native_functions.yaml.

`scripts/op_table.py` writes op_rules.json next to this module.
"""

import functools
import json
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).with_name("op_rules.json")


@dataclass(frozen=True, slots=True)
class OpRules:
    """The table of one torch release.

    Attributes:
        groups: overload names ("add.Tensor", "mm") by kind; scripts/op_table.py explains the kinds.
    """

    groups: dict[str, frozenset[str]]

    def kind(self, overload: str) -> str | None:
        """ "exact", "iterator", "foreach", "structured", "host-only", "generated-out", else None."""
        groups = self.groups
        if overload in groups["exact"] or overload in groups["exact-structured"]:
            return "exact"
        for kind in ("iterator", "foreach", "structured", "host-only", "generated-out"):
            if overload in groups[kind]:
                return kind
        if any(overload in names for kind, names in groups.items() if kind.startswith("exact-")):
            return "exact"
        return None

    def method(self, overload: str, is_out: bool, backend: str = "CUDA") -> str | None:
        """The C++ wrapper that checks, as error messages name it; None when nothing is checked."""
        base, _, name = overload.partition(".")
        out = "_out" if is_out else ""
        if backend == "CUDA":
            if overload in self.groups["exact-structured"]:
                return f"wrapper_CUDA_{base}{out}{'_' + name if name else ''}"
            if overload not in self.groups["exact"]:
                return None
        elif overload not in self.groups.get(f"exact-{backend}", ()):
            return None
        return f"wrapper_{backend}_{name}_{base}{out}"


@functools.lru_cache(maxsize=4)
def load(release: tuple[int, ...]) -> OpRules:
    """The table of a release such as (2, 13); the nearest known one for others."""
    table = json.loads(DATA.read_text())
    groups = {kind: set(names.split()) for kind, names in table["groups"].items()}
    later = {tuple(map(int, key.split("."))): value for key, value in table["later"].items()}
    known = [key for key in later if key <= release]
    if known:
        for kind, change in later[max(known)].items():
            names = groups.setdefault(kind, set())
            names |= set(change["added"].split())
            names -= set(change["removed"].split())
    return OpRules({kind: frozenset(names) for kind, names in groups.items()})
