"""`torch.load` and `torch.save` on virtual GPUs: what is written knows nothing of us.

Storages know their device. A tensor without a storage (the sparse layouts) carries its tag itself, among the
attributes that pickling takes along.
"""

from typing import Any

import torch

from samedevice.model.scene import Action
from samedevice.virtual.patches import Patches
from samedevice.virtual.places import here
from samedevice.virtual.provenance import Birth
from samedevice.virtual.surface.storages import place
from samedevice.virtual.tags import ATTRIBUTE, CPU


def install(patches: Patches, engine: Any) -> None:
    """Remember of each storage that it came from a file; write no tag."""
    state_of = torch._utils._get_obj_state

    def get_obj_state(obj: Any) -> Any:
        state = state_of(obj)
        attributes = state[0] if isinstance(state, tuple) else state
        if not isinstance(attributes, dict) or ATTRIBUTE not in attributes:
            return state
        own = {name: value for name, value in attributes.items() if name != ATTRIBUTE}
        return (own, *state[1:]) if isinstance(state, tuple) else own

    patches.set(torch._utils, "_get_obj_state", get_obj_state)
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
