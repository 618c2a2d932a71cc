"""Where everything lies: an inventory of the tensors of models, optimizers and data.

The records and their rendering need no torch; it is imported with the first audit.
"""

from typing import TYPE_CHECKING, Any

from samedevice.inventory.expect import Stray, StrayTensors
from samedevice.inventory.record import Entry, Inventory, Kind, Role, Section

if TYPE_CHECKING:
    from samedevice.inventory.taking import audit

__all__ = ["Entry", "Inventory", "Kind", "Role", "Section", "Stray", "StrayTensors", "audit"]


def __getattr__(name: str) -> Any:
    if name == "audit":
        from samedevice.inventory.taking import audit

        return audit
    raise AttributeError(f"module 'samedevice.inventory' has no attribute {name!r}")
