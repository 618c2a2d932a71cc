"""DLPack: a capsule says on which device its memory is, so that other libraries refuse a GPU's."""

import ctypes
from typing import Any, Final

import torch

from samedevice.model.scene import Action
from samedevice.virtual.patches import Patches
from samedevice.virtual.places import here
from samedevice.virtual.provenance import Birth
from samedevice.virtual.tags import device_index, set_tag

_CPU: Final = 1
_CUDA: Final = 2
#: name of a capsule → where its structure holds (type of device, index of device)
_OFFSETS: Final = {b"dltensor": 8, b"dltensor_versioned": 40}

_pointer_of: Final = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_is_valid: Final = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)


def _device_field(capsule: Any) -> Any:
    """The two numbers in the capsule's structure, None for anything else than a fresh capsule."""
    for name, offset in _OFFSETS.items():
        if _is_valid(capsule, name):
            return (ctypes.c_int32 * 2).from_address(_pointer_of(capsule, name) + offset)
    return None


def install(patches: Patches, engine: Any) -> None:
    """Write the virtual device into capsules, and read it from those that come back."""
    core = torch._C

    def exporting(real: Any) -> Any:
        def export(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            wanted = kwargs.get("dl_device")
            kwargs = {name: value for name, value in kwargs.items() if name != "dl_device"}
            with core.DisableTorchFunction():
                index = device_index(tensor)
                to_host = wanted is not None and int(wanted[0]) == _CPU
                if to_host and index >= 0:
                    return real(tensor.clone(), *args, **kwargs)
                if wanted is not None and index < 0:
                    kwargs["dl_device"] = wanted
                capsule = real(tensor, *args, **kwargs)
            field = _device_field(capsule)
            if index >= 0 and field is not None:
                field[0], field[1] = _CUDA, index
            return capsule

        return export

    real_import: Any = core._from_dlpack

    def from_capsule(capsule: Any) -> Any:
        field = _device_field(capsule)
        index = -1
        if field is not None and field[0] == _CUDA and field[1] < engine.machine.count:
            index = field[1]
            field[0], field[1] = _CPU, 0
        with core.DisableTorchFunction():
            tensor = real_import(capsule)
            birth = Birth(index, Action.CREATED, "torch.from_dlpack", here(2))
            set_tag(tensor, engine.new_tag(index, birth, tensor))
        return tensor

    for name in ("_to_dlpack", "_to_dlpack_versioned"):
        if hasattr(core, name):
            patches.set(core, name, exporting(getattr(core, name)))
    patches.set(torch.utils.dlpack, "to_dlpack", core._to_dlpack)
    patches.set(torch, "to_dlpack", core._to_dlpack)
    patches.set(core, "_from_dlpack", from_capsule)
