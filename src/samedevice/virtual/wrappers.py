"""Wrapper subclasses: tensors made of other tensors, which name the device themselves.

Quantized weights, jagged nested tensors and their kin are made by `Tensor._make_wrapper_subclass(…,
device=inner.device)`, which no mode sees. C++ must not believe that such a tensor is on a GPU: it
would look for one as soon as it enters an operation, and the results, made by other hands, would
claim another device than what they are views of. They claim the CPU; where they are is read from
the tensors within, or, where a class does not say which those are, from a tag of its own.
"""

import functools
from typing import TYPE_CHECKING, Any, Final

import torch

from samedevice.virtual.devices import REAL_CPU, resolve
from samedevice.virtual.patches import Patches
from samedevice.virtual.tags import CPU, META, Tag, is_wrapper, set_tag

if TYPE_CHECKING:
    from samedevice.virtual.engine import Engine

#: behind the class: size, strides, storage offset, memory format, dtype, layout
_DEVICE: Final = 6


def install(patches: Patches, engine: "Engine") -> None:
    """Have wrappers of tensors on a GPU made as the ordinary tensors that those are."""
    original = torch.Tensor._make_wrapper_subclass

    @functools.wraps(original)
    def make(cls: Any, *args: Any, **kwargs: Any) -> Any:
        spec = args[_DEVICE] if len(args) > _DEVICE else kwargs.get("device")
        if not engine.active or spec is None:
            return original(cls, *args, **kwargs)
        target = resolve(spec, engine.machine)
        if not isinstance(target, int) or target in (CPU, META):
            return original(cls, *args, **kwargs)
        if len(args) > _DEVICE:
            args = (*args[:_DEVICE], REAL_CPU, *args[_DEVICE + 1 :])
        else:
            kwargs = {**kwargs, "device": REAL_CPU}
        result = original(cls, *args, **kwargs)
        if not is_wrapper(cls):
            with torch._C.DisableTorchFunction():
                set_tag(result, Tag(target))  # it holds no memory
        return result

    patches.set(torch.Tensor, "_make_wrapper_subclass", staticmethod(make))
