"""What a tensor says of its device: `.device`, `.is_cuda`, `.get_device()`, `.grad`."""

import functools
from typing import TYPE_CHECKING, Any, Final

import torch

from samedevice.virtual.devices import device_object
from samedevice.virtual.patches import Patches
from samedevice.virtual.provenance import moment
from samedevice.virtual.refusal import Refusal
from samedevice.virtual.tags import CPU, META, UNSETTLED, device_index, device_name

if TYPE_CHECKING:
    from samedevice.virtual.engine import Engine

_Tensor: Final = torch.Tensor
_Disable: Final = torch._C.DisableTorchFunction


def placed(engine: "Engine", tensor: torch.Tensor) -> int:
    """The device that a program sees: a tensor nobody placed joins the last operation's device."""
    with _Disable():
        index = device_index(tensor)
        if index == UNSETTLED:
            index = engine.state.last_device
            engine.settle(tensor, index)
        return index


def device(engine: "Engine", func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`Tensor.device`."""
    index = placed(engine, args[0])
    if index >= 0:
        return device_object(index)
    with _Disable():
        return func(*args)


def is_cuda(engine: "Engine", func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """`Tensor.is_cuda`."""
    return placed(engine, args[0]) >= 0


def is_cpu(engine: "Engine", func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """`Tensor.is_cpu`."""
    return placed(engine, args[0]) == CPU


def get_device(engine: "Engine", func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """`Tensor.get_device()`: the GPU's index, -1 on the CPU."""
    tensor = args[0] if args else kwargs["input"]
    index = placed(engine, tensor)
    return index if index >= 0 else -1


def grad(engine: "Engine", func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`Tensor.grad`: a gradient that nobody placed is where its tensor is."""
    with _Disable():
        gradient = func(*args)
        if gradient is not None:
            engine.settle_gradient(gradient, args[0])
    return gradient


def set_grad(engine: "Engine", func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """`Tensor.grad = …`: refused when the devices differ."""
    tensor, gradient = args
    with _Disable():
        if isinstance(gradient, _Tensor):
            wanted, got = device_index(tensor), device_index(gradient)
            if got == UNSETTLED:
                engine.settle(gradient, wanted)
            elif got != wanted and gradient.dtype == tensor.dtype:
                engine.refuse(_assigned_gradient(tensor, gradient, wanted, got))
                engine.settle(gradient, wanted)
        func(*args)


def set_data(engine: "Engine", func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """`Tensor.data = …`: the storage is exchanged, and with it the device; graphs and gradients stay."""
    tensor, value = args
    with _Disable():
        before = device_index(tensor)
        func(*args)
        after = device_index(value) if isinstance(value, _Tensor) else before
        if before == after or UNSETTLED in (before, after):
            return
        if not (tensor.requires_grad and tensor.is_leaf):
            engine.exact_backward = True  # it may be the gradient of a tensor that stays
            return
        engine.leaf_moved_at = moment()
        gradient = _Tensor.grad.__get__(tensor)
        if gradient is not None:
            # Until it is moved too, the next gradient meets it.
            engine.settle_gradient_at(gradient, before)
            engine.exact_backward = True


def _assigned_gradient(tensor: torch.Tensor, gradient: torch.Tensor, wanted: int, got: int) -> Refusal:
    kinds = [device_name(i).partition(":")[0] for i in (got, wanted)]
    if kinds[0] != kinds[1]:
        message = (
            f"attempting to assign a gradient with device type '{kinds[0]}' to a tensor with device type "
            f"'{kinds[1]}'. Please ensure that the gradient and the tensor are on the same device"
        )
    else:
        # PyTorch prints the indices as raw characters, and a NUL ends the text (2.7 to 2.14).
        message = f"attempting to assign a gradient located on device with index '{chr(got)}"
        if got:
            message += f"' to a tensor located on device with index '{chr(wanted)}"
            if wanted:
                message += "'. Please ensure that the gradient and the tensor are on the same device"
        message = message.split("\0")[0]
    return Refusal(
        RuntimeError,
        message,
        "grad-assign",
        (("self", tensor, wanted), ("grad", gradient, got)),
        wanted,
        1,
    )


def set_storage(engine: "Engine", func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`Tensor.set_(source)`: the storage must be on the tensor's device."""
    if torch._C._meta_in_tls_dispatch_include():
        return func(*args, **kwargs)  # a wrapper subclass lets its result alias its operand
    tensor = args[0]
    source = args[1] if len(args) > 1 else kwargs.get("source")
    with _Disable():
        wanted = device_index(tensor)
        if isinstance(source, _Tensor):
            got = device_index(source)
        elif source is not None:
            storage = getattr(source, "_untyped_storage", source)
            tag = getattr(storage, "_samedevice_tag", None)
            got = tag.device if tag is not None else META if storage.device.type == "meta" else CPU
        else:
            return func(*args, **kwargs)
        if got != wanted and UNSETTLED not in (got, wanted):
            engine.refuse(
                Refusal(
                    RuntimeError,
                    f'Attempted to set the storage of a tensor on device "{device_name(wanted)}" to a storage on '
                    f'different device "{device_name(got)}".  This is no longer allowed; the devices must match.',
                    "set-storage",
                    (("self", tensor, wanted),),
                    wanted,
                )
            )
        return func(*args, **kwargs)


def install(patches: Patches, engine: "Engine") -> None:
    """`set_` is a method that no mode sees, so it is replaced."""
    original = _Tensor.set_

    @functools.wraps(original)
    def set_(*args: Any, **kwargs: Any) -> Any:
        if not engine.active:
            return original(*args, **kwargs)
        return set_storage(engine, original, args, kwargs)

    patches.set(_Tensor, "set_", set_)


TABLE: Final = {
    _Tensor.device.__get__: device,
    _Tensor.is_cuda.__get__: is_cuda,
    _Tensor.is_cpu.__get__: is_cpu,
    _Tensor.get_device: get_device,
    torch.get_device: get_device,
    _Tensor.grad.__get__: grad,
    _Tensor.grad.__set__: set_grad,
    _Tensor.data.__set__: set_data,
}
