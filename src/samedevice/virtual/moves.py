"""Moves between devices: `to`, `cuda`, `cpu`, `type`, `type_as`, `pin_memory`.

A move is a real copy of an ordinary CPU tensor whose storage gets another tag. It is
differentiable, and its backward moves the gradient back.
"""

import numbers
import weakref
from typing import TYPE_CHECKING, Any, Final

import torch

from samedevice.model.scene import Action
from samedevice.virtual.devices import REAL_CPU, resolve, use_gpu
from samedevice.virtual.places import here
from samedevice.virtual.provenance import Birth, TensorMoved
from samedevice.virtual.refusal import Refusal
from samedevice.virtual.tags import CPU, META, UNSETTLED, Tag, device_index, device_name, set_tag, tag_of

if TYPE_CHECKING:
    from samedevice.virtual.engine import Engine

_TO: Final = torch.Tensor.to
_Tensor: Final = torch.Tensor


def move(
    engine: "Engine",
    tensor: torch.Tensor,
    target: "int | torch.device",
    function: str,
    dtype: torch.dtype | None = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: torch.memory_format | None = None,
) -> torch.Tensor:
    """The tensor on `target`: itself when nothing changes, else a copy with another tag.

    Raises:
        NotImplementedError: a meta tensor has no data to copy (PyTorch's own error).
    """
    more: dict[str, Any] = {}
    if dtype is not None:
        more["dtype"] = dtype
    if memory_format is not None:
        more["memory_format"] = memory_format
    with torch._C.DisableTorchFunction():
        source = device_index(tensor)
        if source == META and target != META:
            return _copy_out_of_meta(engine, tensor, target, more)
        if not isinstance(target, int):
            return _TO(tensor, device=target, copy=copy, **more)
        if target == META:
            result = _TO(tensor, device="meta", copy=copy, **more)
            if source == META:
                return result
            known = tag_of(tensor)
            parents = (known.birth,) if known is not None and known.birth is not None else ()
            set_tag(result, Tag(META, Birth(META, Action.MOVED, function, here(2), parents, True)))
            return result
        if source == UNSETTLED:
            engine.settle(tensor, target)
            source = target
        if source == target:
            if not more and not copy:
                return tensor
            result = _TO(tensor, copy=copy, **more)
            known = tag_of(tensor)
            engine.stamp(result, target, [known.birth] if known is not None and known.birth else [], True)
            return result
        state = engine.state
        tag = tag_of(tensor) or engine.adopt(tensor)
        if engine.on_transfer is not None:
            engine.on_transfer(source, target, non_blocking)
        before = (state.target, state.action, state.function, state.source, state.explicit, state.call)
        state.target, state.action, state.function = target, Action.MOVED, function
        state.source, state.explicit, state.call = tag.birth, True, None
        try:
            more.setdefault("dtype", tensor.dtype)
            result = _TO(tensor, copy=True, **more)
            engine.stamp(result, target)
        finally:
            state.target, state.action, state.function, state.source, state.explicit, state.call = before
        moved = tag_of(result)
        if moved is None or moved.device != target:
            # Layouts whose copy is made of several operations (sparse) arrive without the new tag.
            engine.tag(result, target)
            moved = tag_of(result)
        if result.requires_grad:
            engine.exact_backward = True
            _move_gradient_back(engine, result, source, function)
        if moved is not None and moved.birth is not None:
            engine.session.record_move(
                TensorMoved(tag.birth, weakref.ref(moved), moved.birth, function, moved.birth.place)
            )
        for listener in engine.listeners:
            listener(("transfer", source, target, tensor, tag.pinned, non_blocking, function, result))
        return result


def _copy_out_of_meta(
    engine: "Engine", tensor: torch.Tensor, target: "int | torch.device", more: dict[str, Any]
) -> torch.Tensor:
    try:
        return _TO(tensor, device=REAL_CPU, **more)
    except NotImplementedError as error:
        if "meta tensor" in str(error):
            common = target if isinstance(target, int) else CPU
            engine.refuse(
                Refusal(
                    NotImplementedError,
                    str(error),
                    "meta",
                    (("self", tensor, META),),
                    common,
                    0,
                    recoverable=False,
                )
            )
        raise


def _move_gradient_back(engine: "Engine", result: torch.Tensor, source: int, function: str) -> None:
    node = result.grad_fn
    if node is None:
        return

    def back(grad_inputs: tuple[Any, ...], grad_outputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
        gradient = grad_inputs[0]
        if gradient is None:
            return None
        return (move(engine, gradient, source, function, copy=True), *grad_inputs[1:])

    node.register_hook(back)


def to(engine: "Engine", func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`Tensor.to` in its three forms."""
    tensor, rest = args[0], list(args[1:])
    device: Any = kwargs.get("device")
    dtype = kwargs.get("dtype")
    other = kwargs.get("other")
    if rest:
        first = rest.pop(0)
        if _names_dtype(first):
            dtype = first
        elif isinstance(first, _Tensor):
            other = first
        elif first.__class__ not in _DEVICES and _is_scalar(first):
            if rest and _names_dtype(rest[0]):
                return func(*args, **kwargs)  # PyTorch's own TypeError
            with torch._C.DisableTorchFunction():
                other = _TO(torch.empty(0, device=REAL_CPU), first)
        else:
            device = first
            if rest and (rest[0] is None or _names_dtype(rest[0])):
                dtype = rest.pop(0)
    non_blocking = rest.pop(0) if rest else kwargs.get("non_blocking", False)
    copy = rest.pop(0) if rest else kwargs.get("copy", False)
    memory_format = kwargs.get("memory_format")
    target: int | torch.device
    if other is not None:
        with torch._C.DisableTorchFunction():
            target = device_index(other)
        dtype = other.dtype
    elif device is not None:
        target = resolve(device, engine.machine)
    else:
        return engine.plain(func, args, kwargs)
    if rest or kwargs.keys() - {"device", "dtype", "other", "non_blocking", "copy", "memory_format"}:
        return func(*args, **kwargs)  # PyTorch's own TypeError
    dtype = _PYTHON_TYPES.get(dtype, dtype)
    return move(engine, tensor, target, "Tensor.to", dtype, bool(non_blocking), bool(copy), memory_format)


#: what Python's own types stand for where a dtype is asked for
_PYTHON_TYPES: Final[dict[Any, torch.dtype]] = {
    bool: torch.bool,
    int: torch.int64,
    float: torch.float64,
    complex: torch.complex128,
}


#: what a device is mostly named by
_DEVICES: Final = frozenset({str, int, torch.device})


def _is_scalar(value: Any) -> bool:
    """Whether PyTorch takes a number for a tensor of the CPU (`x.to(0.5)`), as it does all but integers."""
    return isinstance(value, bool) or (
        isinstance(value, numbers.Number) and not isinstance(value, numbers.Integral)
    )


def _names_dtype(value: Any) -> bool:
    return isinstance(value, torch.dtype) or (isinstance(value, type) and value in _PYTHON_TYPES)


def cuda(engine: "Engine", func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`Tensor.cuda(device=None, non_blocking=False)`."""
    device = args[1] if len(args) > 1 else kwargs.get("device")
    non_blocking = args[2] if len(args) > 2 else kwargs.get("non_blocking", False)
    target = resolve("cuda" if device is None else device, engine.machine)
    if not isinstance(target, int) or target < 0:
        raise RuntimeError("Invalid device, must be cuda device")
    return move(
        engine,
        args[0],
        target,
        "Tensor.cuda",
        non_blocking=bool(non_blocking),
        memory_format=kwargs.get("memory_format"),
    )


def cpu(engine: "Engine", func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`Tensor.cpu()`."""
    return move(engine, args[0], CPU, "Tensor.cpu", memory_format=kwargs.get("memory_format"))


def type_(engine: "Engine", func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`Tensor.type()` names the type with its device; `Tensor.type(x)` converts and moves."""
    tensor = args[0]
    wanted = args[1] if len(args) > 1 else kwargs.get("dtype")
    with torch._C.DisableTorchFunction():
        index = device_index(tensor)
        if wanted is None:
            return type_name(tensor, index)
    if isinstance(wanted, torch.dtype):
        return engine.plain(func, args, kwargs)
    name = wanted if isinstance(wanted, str) else f"{wanted.__module__}.{wanted.__name__}"
    on_gpu = name.startswith("torch.cuda.")
    dtype = _LEGACY_TYPES.get(name.rpartition(".")[2])
    if dtype is None and on_gpu:
        raise ValueError(f"invalid type: '{name}'")
    if dtype is None:
        return func(*args, **kwargs)  # PyTorch's own error
    target = (index if index >= 0 else use_gpu(engine.machine, engine.machine.current)) if on_gpu else CPU
    return move(engine, tensor, target, "Tensor.type", dtype)


_LEGACY_TYPES: Final = {
    "FloatTensor": torch.float32,
    "DoubleTensor": torch.float64,
    "HalfTensor": torch.float16,
    "BFloat16Tensor": torch.bfloat16,
    "ByteTensor": torch.uint8,
    "CharTensor": torch.int8,
    "ShortTensor": torch.int16,
    "IntTensor": torch.int32,
    "LongTensor": torch.int64,
    "BoolTensor": torch.bool,
}
_LEGACY_NAMES: Final = {dtype: name for name, dtype in _LEGACY_TYPES.items()}


def type_name(tensor: torch.Tensor, index: int) -> str:
    """As `Tensor.type()` spells it: "torch.cuda.FloatTensor"."""
    real = _Tensor.type(tensor)
    if index < 0:
        return real
    return real.replace("torch.", "torch.cuda.", 1)


def type_as(engine: "Engine", func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`Tensor.type_as(other)`: the other's dtype *and* device."""
    other = args[1] if len(args) > 1 else kwargs["other"]
    with torch._C.DisableTorchFunction():
        target = device_index(other)
    return move(engine, args[0], target, "Tensor.type_as", other.dtype)


def pin_memory(engine: "Engine", func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`Tensor.pin_memory()`: a page-locked copy; only host memory can be pinned."""
    tensor = args[0]
    with torch._C.DisableTorchFunction():
        index = device_index(tensor)
        tag = tag_of(tensor) or engine.adopt(tensor)
        if index >= 0 or tensor.layout != torch.strided:
            engine.refuse(
                Refusal(
                    RuntimeError,
                    f"cannot pin '{type_name(tensor, index)}' only dense CPU tensors can be pinned",
                    "pin",
                    (("self", tensor, index),),
                    CPU,
                    0,
                )
            )
            return tensor
        if tag.pinned:
            return tensor
        result = tensor.clone(memory_format=torch.preserve_format)
        copied = type(tag)(CPU, tag.birth)
        copied.pinned = True
        set_tag(result, copied)
        return result


def is_pinned(engine: "Engine", func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """`Tensor.is_pinned()`."""
    with torch._C.DisableTorchFunction():
        tag = tag_of(args[0])
        return tag is not None and tag.pinned


def numpy(engine: "Engine", func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`Tensor.numpy()`: numpy sees host memory only; `force=True` copies."""
    with torch._C.DisableTorchFunction():
        index = device_index(args[0])
        forced = args[1] if len(args) > 1 else kwargs.get("force", False)
    if index >= 0:
        if forced:
            args = (move(engine, args[0].detach(), CPU, "Tensor.numpy"),)
        else:
            engine.refuse(
                Refusal(
                    TypeError,
                    f"can't convert {device_name(index)} device type tensor to numpy. "
                    "Use Tensor.cpu() to copy the tensor to host memory first.",
                    "numpy",
                    (("self", args[0], index),),
                    CPU,
                    0,
                )
            )
    with torch._C.DisableTorchFunction():
        return func(*args, **kwargs)


TABLE: Final = {
    _Tensor.to: to,
    _Tensor.cuda: cuda,
    _Tensor.cpu: cpu,
    _Tensor.type: type_,
    _Tensor.type_as: type_as,
    _Tensor.pin_memory: pin_memory,
    _Tensor.is_pinned: is_pinned,
    _Tensor.numpy: numpy,
}
