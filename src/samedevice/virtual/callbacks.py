"""Python code that C++ calls back in the middle of an operation.

While a torch function runs, the function mode that handed it over is popped. User code called from
inside (saved-tensor hooks, kernels of custom operators written in Python) must see virtual devices
all the same: it runs with the modes entered again.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from samedevice.virtual import registrations
from samedevice.virtual.patches import Patches
from samedevice.virtual.tags import tag_of

if TYPE_CHECKING:
    from samedevice.virtual.activation import Activation

#: namespaces of PyTorch's own operators; others are custom operators
BUILTIN = frozenset(
    {
        "aten",
        "prim",
        "prims",
        "_c10d_functional",
        "c10d",
        "inductor",
        "debugprims",
        "profiler",
        "quantized",
        "mkldnn",
    }
)


def install(patches: Patches, activation: "Activation") -> None:
    """Run saved-tensor hooks with the modes entered; remember where hooks on modules were registered."""
    registrations.install(patches, activation.engine)
    autograd = torch._C._autograd
    push = autograd._push_saved_tensors_default_hooks

    def push_hooks(pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> None:
        activation.engine.exact_backward = True
        push(seeing_devices(activation, placing(activation, pack)), seeing_devices(activation, unpack))

    patches.set(autograd, "_push_saved_tensors_default_hooks", push_hooks)
    register = autograd.SavedTensor.register_hooks

    def register_hooks(self: Any, pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> None:
        activation.engine.exact_backward = True
        register(self, seeing_devices(activation, pack), seeing_devices(activation, unpack))

    patches.set(autograd.SavedTensor, "register_hooks", register_hooks)


def placing(activation: "Activation", pack: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A pack hook that is told where C++'s own intermediate results are: with their operands."""

    def call(tensor: Any) -> Any:
        engine = activation.engine
        running = engine.state.call
        if engine.active and running is not None and isinstance(tensor, torch.Tensor):
            with torch._C.DisableTorchFunction():
                if tag_of(tensor) is None:
                    device = engine.device_of_call(running)
                    if device is not None and device >= 0:
                        engine.settle(tensor, device)
        return pack(tensor)

    return call


def seeing_devices(activation: "Activation", function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, run with the modes entered wherever it is called from."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if not activation.engine.active:
            return function(*args, **kwargs)
        with activation.entered_again():
            return function(*args, **kwargs)

    return call
