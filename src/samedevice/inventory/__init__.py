"""Where everything lies: an inventory of the tensors of models, optimizers and data."""

from samedevice.inventory.audit import audit
from samedevice.inventory.expect import Stray, StrayTensors
from samedevice.inventory.record import Entry, Inventory, Kind, Role, Section

__all__ = ["Entry", "Inventory", "Kind", "Role", "Section", "Stray", "StrayTensors", "audit"]
