"""Where a tensor claims to be: the tag on its storage.

Every tensor under virtual GPUs is an ordinary CPU tensor. `Tensor.untyped_storage()` returns the
same Python object while the storage lives, so an attribute on it survives, views share it, and
nothing needs cleaning up.

Devices are small integers here: `CPU`, `META`, `UNSETTLED`, or n >= 0 for `cuda:n`. A storage
without a tag is on the CPU: no mode saw it being made (numpy, unpickling, a DataLoader's worker).
"""

from typing import Any, Final

import torch

CPU: Final = -1
META: Final = -2
#: made by C++ where nobody names a device (a zero gradient, say): it joins the first tensor it meets
UNSETTLED: Final = -3

ATTRIBUTE: Final = "_samedevice_tag"

#: bound once: reaching it through the class each time costs more than the call
_storage_of = torch._C.TensorBase.untyped_storage


class Tag:
    """The device of a storage, and the record of its birth.

    Attributes:
        device: CPU, META, UNSETTLED or the index of a virtual GPU.
        birth: the `samedevice.virtual.provenance.Birth` of the data, None when provenance is off.
        pinned: the storage claims to be page-locked host memory.
        nbytes: bytes counted against the virtual GPU's memory.
    """

    __slots__ = ("__weakref__", "birth", "device", "nbytes", "pinned")

    def __init__(self, device: int, birth: Any = None, pinned: bool = False, nbytes: int = 0) -> None:
        self.device = device
        self.birth = birth
        self.pinned = pinned
        self.nbytes = nbytes

    def __deepcopy__(self, memo: dict[int, Any]) -> "Tag":
        # Copying a tensor without a storage copies its attributes; the copy is where the original is.
        return self


PLAIN: Final = frozenset({torch.Tensor, torch.nn.Parameter})


def is_wrapper(cls: Any) -> bool:
    """Whether tensors of this class are made of others and dispatch to them (DTensor and its kin)."""
    return hasattr(cls, "__tensor_flatten__")


def unwrapped(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor that holds the data: the first inner one of a wrapper subclass, else itself."""
    while is_wrapper(tensor.__class__):
        inner = getattr(tensor, "_local_tensor", None)  # DTensor's flattening costs much more
        if inner is None:
            names = tensor.__tensor_flatten__()[0]
            if not names:
                break
            inner = getattr(tensor, names[0])
        tensor = inner
    return tensor


def tag_of(tensor: torch.Tensor) -> Tag | None:
    """The tag of the tensor's storage, None when it has none.

    Tensors without a storage of their own (sparse layouts, functorch wrappers) carry the tag
    themselves, or inherit it from what they wrap, as wrapper subclasses (DTensor) do.
    """
    if tensor.__class__ not in PLAIN:
        tensor = unwrapped(tensor)
    try:
        storage = _storage_of(tensor)
    except (NotImplementedError, RuntimeError):
        return _tag_without_storage(tensor)
    return getattr(storage, ATTRIBUTE, None)


def _tag_without_storage(tensor: torch.Tensor) -> Tag | None:
    own = getattr(tensor, ATTRIBUTE, None)
    if own is not None:
        return own
    functorch = torch._C._functorch
    if functorch.is_functorch_wrapped_tensor(tensor):
        return tag_of(functorch.get_unwrapped(tensor))
    return None


def set_tag(tensor: torch.Tensor, tag: Tag) -> None:
    """Tag the tensor's storage (or the tensor itself where it has none)."""
    if tensor.__class__ not in PLAIN:
        tensor = unwrapped(tensor)
    try:
        storage = _storage_of(tensor)
    except (NotImplementedError, RuntimeError):
        functorch = torch._C._functorch
        if functorch.is_functorch_wrapped_tensor(tensor):
            set_tag(functorch.get_unwrapped(tensor), tag)
        else:
            setattr(tensor, ATTRIBUTE, tag)
        return
    setattr(storage, ATTRIBUTE, tag)


def device_index(tensor: torch.Tensor) -> int:
    """Where the tensor is: CPU, META, UNSETTLED or the index of a virtual GPU.

    Call it with torch functions disabled (inside a mode's handler): it reads the real tensor.
    """
    tag = tag_of(tensor)
    if tag is not None:
        return tag.device
    return META if tensor.is_meta else CPU


def device_name(index: int) -> str:
    """As PyTorch writes it: "cpu", "meta", "cuda:0"."""
    if index >= 0:
        return f"cuda:{index}"
    return "meta" if index == META else "cpu"
