"""Reading a tensor's value into Python: a meta tensor has none."""

from typing import TYPE_CHECKING, Any, Final

import torch

from samedevice.virtual.refusal import Refusal
from samedevice.virtual.tags import CPU, META

if TYPE_CHECKING:
    from samedevice.virtual.engine import Engine

#: functions that give a tensor's value to Python
READING: Final = tuple(
    getattr(torch.Tensor, name)
    for name in "item tolist __bool__ __float__ __int__ __index__ __complex__".split()
)


def refuse_without_data(engine: "Engine", args: tuple[Any, ...], error: RuntimeError) -> None:
    """Tell of a read that PyTorch refused because the tensor is on the meta device.

    Raises:
        the error's own class and words: nothing can go on without a value.
    """
    tensor = args[0] if args else None
    with torch._C.DisableTorchFunction():
        if not isinstance(tensor, torch.Tensor) or not tensor.is_meta:
            return
    engine.refuse(
        Refusal(type(error), str(error), "meta", (("self", tensor, META),), CPU, 0, recoverable=False)
    )
