"""`torch.load` on virtual GPUs; `torch.save` needs nothing but storages that know their device."""

from typing import Any

import torch

from samedevice.model.scene import Action
from samedevice.virtual.patches import Patches
from samedevice.virtual.places import here
from samedevice.virtual.provenance import Birth
from samedevice.virtual.surface.storages import place
from samedevice.virtual.tags import ATTRIBUTE, CPU


def install(patches: Patches, engine: Any) -> None:
    """Remember of each storage that it came from a file."""
    real = torch.serialization._get_restore_location

    def get_restore_location(map_location: Any) -> Any:
        restore = real(map_location)

        def restore_location(storage: Any, location: str) -> Any:
            found = restore(storage, location)
            untyped = getattr(found, "_untyped_storage", found)
            if isinstance(untyped, torch.UntypedStorage) and untyped.device.type != "meta":
                tag = getattr(untyped, ATTRIBUTE, None)
                device = CPU if tag is None else tag.device
                birth = Birth(device, Action.LOADED, "torch.load", here(2), (), map_location is not None)
                if tag is None:
                    place(engine, untyped, device, birth)
                else:
                    tag.birth = birth
            return found

        return restore_location

    patches.set(torch.serialization, "_get_restore_location", get_restore_location)
