"""Storages: where they say they are, copies between devices, sharing between processes."""

from typing import Any

import torch

from samedevice.model.scene import Action
from samedevice.virtual.devices import device_object, resolve
from samedevice.virtual.errors import uninitialized
from samedevice.virtual.patches import Patches
from samedevice.virtual.places import here
from samedevice.virtual.provenance import Birth
from samedevice.virtual.tags import ATTRIBUTE, CPU, Tag

_real_device = torch._C.StorageBase.device.__get__
_real_new = torch._C.StorageBase.__new__


def place(engine: Any, storage: Any, device: int, birth: Birth | None, pinned: bool = False) -> Any:
    """Tag a storage that no operation made."""
    if device >= 0:
        tag = engine.gpu_tag(device, birth, storage.nbytes())
    else:
        tag = Tag(device, birth, pinned)
    setattr(storage, ATTRIBUTE, tag)
    return storage


def install(patches: Patches, engine: Any) -> None:
    """Make storages know the virtual device that they are on."""
    machine = engine.machine
    cls: Any = torch.UntypedStorage
    real_clone = cls.clone
    real_resize = cls.resize_
    real_is_shared = cls.is_shared

    def get_device(self: Any) -> torch.device:
        tag = getattr(self, ATTRIBUTE, None)
        if tag is None or tag.device < 0:
            return _real_device(self)
        return device_object(tag.device)

    def new(kind: Any, *args: Any, **kwargs: Any) -> Any:
        wanted = kwargs.get("device")
        index = CPU if wanted is None else resolve(wanted, machine)
        if not isinstance(index, int) or index < 0:
            return _real_new(kind, *args, **kwargs)
        made = _real_new(kind, *args, **{**kwargs, "device": "cpu"})
        birth = Birth(index, Action.CREATED, "torch.UntypedStorage", here(2), (), True)
        return place(engine, made, index, birth)

    def clone(self: Any) -> Any:
        made = real_clone(self)
        tag = getattr(self, ATTRIBUTE, None)
        if tag is None:
            return made
        parents = () if tag.birth is None else (tag.birth,)
        birth = Birth(tag.device, Action.COPIED, "copy.deepcopy", here(2), parents)
        own = getattr(made, ATTRIBUTE, None)
        if own is None:
            return place(engine, made, tag.device, birth)
        own.birth = birth
        return made

    def is_pinned(self: Any, device: Any = None) -> bool:
        tag = getattr(self, ATTRIBUTE, None)
        return tag is not None and tag.pinned

    def pin_memory(self: Any, device: Any = None) -> Any:
        if self.device.type != "cpu":
            raise TypeError(f"cannot pin '{self.type()}' only CPU memory can be pinned")
        if self.is_pinned():
            return self
        torch.cuda._lazy_init()
        made = _real_new(cls, self.nbytes())
        made.copy_(self)
        tag = getattr(self, ATTRIBUTE, None)
        return place(engine, made, CPU, None if tag is None else tag.birth, pinned=True)

    def is_shared(self: Any) -> bool:
        tag = getattr(self, ATTRIBUTE, None)
        return real_is_shared(self) if tag is None or tag.device < 0 else True

    def resize_(self: Any, size: int) -> Any:
        result = real_resize(self, size)
        tag = getattr(self, ATTRIBUTE, None)
        if tag is not None and tag.device >= 0:
            # programs free the memory of tensors they will compute again in this way
            setattr(self, ATTRIBUTE, engine.gpu_tag(tag.device, tag.birth, self.nbytes()))
        return result

    # CUDA shares by handle, and the sender must keep the tensor alive: so does shared memory by name.
    def share_cuda(self: Any) -> Any:
        if machine.in_forked_child:
            raise uninitialized()
        if self.device.type != "cuda":
            raise RuntimeError("_share_cuda_: only available on CUDA")
        handle = self._share_filename_cpu_()
        self._shared_incref()  # until it is received
        return self.device.index, handle, self.nbytes(), 0, b"", 0, b"", False

    def new_shared_cuda(device: int, handle: Any, *_: Any) -> Any:
        index = resolve(torch.device("cuda", device), machine)
        made = cls._new_shared_filename_cpu(*handle)
        made._shared_decref()
        return place(engine, made, int(index), Birth(int(index), Action.RECEIVED, "multiprocessing", here(2)))

    patches.set(cls, "device", property(get_device))
    patches.set(cls, "__new__", staticmethod(new))
    patches.set(cls, "clone", clone)
    patches.set(cls, "is_pinned", is_pinned)
    patches.set(cls, "pin_memory", pin_memory)
    patches.set(cls, "is_shared", is_shared)
    patches.set(cls, "resize_", resize_)
    patches.set(cls, "_share_cuda_", share_cuda)
    patches.set(cls, "_new_shared_cuda", staticmethod(new_shared_cuda))
    patches.set(cls, "_release_ipc_counter_cuda", staticmethod(lambda *args, **kwargs: None))
