"""What an audit finds: one `Entry` a tensor, in sections, one for each object looked at."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """What kind of place a tensor has."""

    PARAMETER = "parameter"
    BUFFER = "buffer"
    ATTRIBUTE = "attribute"  # a plain attribute of a module or another object
    ITEM = "item"  # in a list, dict, tuple or set
    CLOSURE = "closure"  # held by a function: a default or a variable of an enclosing scope
    CLASS = "class attribute"
    GRADIENT = "gradient"
    OPTIMIZER_STATE = "optimizer state"


class Role(StrEnum):
    """What kind of object a section is about."""

    MODEL = "model"
    LOSS = "loss"
    METRIC = "metric"
    COPY = "averaged copy"
    OPTIMIZER = "optimizer"
    SCHEDULER = "scheduler"
    LOADER = "loader"
    DATA = "data"
    OBJECT = "object"


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor at one path.

    Attributes:
        steps: the path in parts, as they are written one after the other ("model", ".layers", "[0]").
        registered: `Module.to` reaches it; None outside modules.
        in_state_dict: saved with its owner; None where nothing is saved.
        tied: other paths at which the same tensor is found.
        shared: paths of other tensors in the same memory (views).
        follows: device of the tensor it has to be with (an optimizer's state, a gradient).
        owner: class of the object that holds it.
        module_registered: False when the module that holds it is not registered with its parent.
        alias: the same memory was listed before, its bytes are counted there.
    """

    steps: tuple[str, ...]
    kind: Kind
    device: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    registered: bool | None = None
    in_state_dict: bool | None = None
    tied: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    follows: str | None = None
    owner: str = ""
    module_registered: bool = True
    alias: bool = False
    requires_grad: bool = False

    @property
    def path(self) -> str:
        """The path as an expression."""
        return "".join(self.steps)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "path": self.path,
            "kind": str(self.kind),
            "device": self.device,
            "dtype": self.dtype,
            "shape": list(self.shape),
            "bytes": self.nbytes,
            "registered": self.registered,
            "in_state_dict": self.in_state_dict,
            "tied_with": list(self.tied),
            "shares_memory_with": list(self.shared),
            "requires_grad": self.requires_grad,
        }


@dataclass(frozen=True, slots=True)
class Section:
    """All tensors of one object."""

    name: str
    role: Role
    class_name: str
    entries: tuple[Entry, ...] = ()
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "name": self.name,
            "role": str(self.role),
            "class": self.class_name,
            "notes": list(self.notes),
            "tensors": [entry.to_dict() for entry in self.entries],
        }


@dataclass(frozen=True, slots=True)
class Inventory:
    """Where everything lies. Prints as a tree table, shows itself as one in notebooks."""

    sections: tuple[Section, ...]

    def entries(self) -> Iterator[Entry]:
        """All entries of all sections."""
        for section in self.sections:
            yield from section.entries

    def bytes_by_device(self) -> dict[str, int]:
        """Bytes on each device; shared memory counts once."""
        found: dict[str, int] = {}
        for entry in self.entries():
            if not entry.alias:
                found[entry.device] = found.get(entry.device, 0) + entry.nbytes
        return found

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "version": 1,
            "bytes": self.bytes_by_device(),
            "sections": [section.to_dict() for section in self.sections],
        }

    def __str__(self) -> str:
        from samedevice.inventory.table import render

        return render(self)

    def __repr__(self) -> str:
        return f"<samedevice.Inventory of {', '.join(s.name for s in self.sections) or 'nothing'}>"

    def _repr_html_(self) -> str:
        from samedevice.inventory.page import render

        return render(self)
