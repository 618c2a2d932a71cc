"""Factories: `device=` is taken off, the tensor is made on the CPU and tagged."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils import _device

from samedevice.model.scene import Action
from samedevice.virtual.check import wording
from samedevice.virtual.devices import REAL_CPU, resolve
from samedevice.virtual.moves import move
from samedevice.virtual.patches import Patches
from samedevice.virtual.places import here
from samedevice.virtual.provenance import Birth, name_of
from samedevice.virtual.refusal import Refusal
from samedevice.virtual.surface.legacy import tensor_options
from samedevice.virtual.tags import CPU, META, Tag, device_index, device_name, set_tag, tag_of

if TYPE_CHECKING:
    from samedevice.virtual.engine import Engine

_Tensor: Final = torch.Tensor


def default_device(engine: "Engine", func: Any) -> "int | torch.device | None":
    """What `torch.set_default_device` or `with torch.device(…)` names for this factory."""
    current = _device.CURRENT_DEVICE
    if current is None or func not in _device._device_constructors():
        return None
    return resolve(current, engine.machine)


def create(engine: "Engine", func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Any function that was given `device=`, or that the default device concerns."""
    spec = kwargs.get("device")
    target = default_device(engine, func) if spec is None else resolve(spec, engine.machine)
    if target is None:
        return engine.plain(func, args, kwargs)
    if not isinstance(target, int) or target == META:
        return engine.plain(func, args, kwargs)
    _check_out(kwargs, target)
    pinned = kwargs.get("pin_memory", False)
    kwargs = {**kwargs, "device": REAL_CPU}
    kwargs.pop("pin_memory", None)
    if pinned and target >= 0:
        raise RuntimeError("Only dense CPU tensors can be pinned")
    state = engine.state
    before = (state.target, state.explicit, state.call, state.action)
    # The births inside keep the operation's own action: `zeros_like(x, device=…)` is a creation too.
    state.target, state.explicit = target, spec is not None
    state.call, state.action, state.function = (func, args, kwargs), Action.CREATED, name_of(func)
    try:
        if kwargs.get("generator") is not None:  # its device is judged with the operation
            with engine.exactly():
                result = func(*args, **kwargs)
        else:
            result = func(*args, **kwargs)
        engine.stamp(result, target)
    finally:
        state.target, state.explicit, state.call, state.action = before
    if pinned:
        _mark_pinned(result)
    return result


def _check_out(kwargs: dict[str, Any], target: int) -> None:
    out = kwargs.get("out")
    if isinstance(out, _Tensor):
        with torch._C.DisableTorchFunction():
            index = device_index(out)
        if (index >= 0) != (target >= 0):
            kinds = ["cuda" if i >= 0 else "cpu" for i in (target, index)]
            raise RuntimeError(
                f"device type {kinds[0]} does not match device type of out parameter ({kinds[1]})"
            )


def _mark_pinned(result: Any) -> None:
    with torch._C.DisableTorchFunction():
        if isinstance(result, _Tensor) and (tag := tag_of(result)) is not None:
            tag.pinned = True


def pinned_factory(engine: "Engine", func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A factory with `pin_memory=True` and no device."""
    kwargs = dict(kwargs)
    kwargs.pop("pin_memory")
    result = engine.plain(func, args, kwargs)
    _mark_pinned(result)
    return result


def from_data(engine: "Engine", func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`torch.tensor`, `as_tensor`, `asarray`: from Python numbers, numpy or another tensor."""
    data = args[0] if args else kwargs.get("data", kwargs.get("obj"))
    kwargs = dict(kwargs)
    if func is torch.as_tensor and len(args) > 2:  # as_tensor(data, dtype, device)
        kwargs["device"], args = args[2], args[:2]
    if func is torch.asarray:
        if type(data).__name__ == "PyCapsule":
            data = torch._C._from_dlpack(data)
            args, kwargs = (data, *args[1:]), {k: v for k, v in kwargs.items() if k != "obj"}
        if isinstance(data, _Tensor) or kwargs.get("copy") is False:
            _check_alias(engine, data, kwargs)
    spec = kwargs.get("device")
    if spec is not None:
        target = resolve(spec, engine.machine)
    elif isinstance(data, _Tensor):
        target = default_device(engine, func)
        if target is None or func is torch.asarray:
            with torch._C.DisableTorchFunction():
                target = device_index(data)
    else:
        target = default_device(engine, func)
    if target is not None and (not isinstance(target, int) or target == META):
        return engine.plain(func, args, kwargs)
    on = CPU if target is None else target
    pinned = kwargs.pop("pin_memory", False)
    if isinstance(data, _Tensor):
        if func is torch.tensor:
            requires_grad = kwargs.pop("requires_grad", False)
            result = move(engine, data.detach(), on, "torch.tensor", kwargs.get("dtype"), copy=True)
            return result.requires_grad_() if requires_grad else result
        dtype = args[1] if len(args) > 1 else kwargs.get("dtype")
        result = move(engine, data, on, name_of(func), dtype, copy=bool(kwargs.get("copy")))
        wanted = kwargs.get("requires_grad") if func is torch.asarray else None
        if wanted is None or wanted == result.requires_grad:
            return result
        return result.requires_grad_() if wanted else result.detach()
    if target is not None:
        kwargs["device"] = REAL_CPU
    if isinstance(data, torch.TypedStorage):
        args, kwargs = _in_host_memory(data, args, kwargs)
    with torch._C.DisableTorchFunction():
        result = func(*args, **kwargs)
        shares_memory = func is not torch.tensor and not isinstance(
            data, (list, tuple, int, float, complex, bool)
        )
        if on >= 0 and shares_memory:
            # On a GPU the data is copied; here it must not share memory with the array either.
            requires_grad = result.requires_grad
            result = torch.clone(result.detach())
            if requires_grad:
                result.requires_grad_()
        action = Action.FROM_NUMPY if hasattr(data, "__array_interface__") else Action.CREATED
        birth = Birth(on, action, name_of(func), here(2), (), spec is not None)
        set_tag(result, engine.new_tag(on, birth, result))
    if pinned:
        _mark_pinned(result)
    return result


def _check_alias(engine: "Engine", data: Any, kwargs: dict[str, Any]) -> None:
    """What `torch.asarray(…, copy=False)` refuses, in its own words.

    Raises:
        ValueError: the data is elsewhere or of another type.
    """
    if kwargs.get("copy") is not False:
        return
    with torch._C.DisableTorchFunction():
        if isinstance(data, _Tensor):
            own = device_name(device_index(data))
        elif hasattr(data, "__array_interface__") or isinstance(data, (bytes, bytearray, memoryview)):
            own = "cpu"
        else:
            return
    wanted = kwargs.get("device")
    if wanted is None and default_device(engine, torch.asarray) is not None:
        wanted = _device.CURRENT_DEVICE
    if wanted is not None and str(torch.device(wanted)) != own:
        raise ValueError(f"can't alias tensor from device '{own}' to '{torch.device(wanted)}'.")
    dtype = kwargs.get("dtype")
    if dtype is not None and isinstance(data, _Tensor) and dtype is not data.dtype:
        names = [wording.scalar_name(torch.empty(0, dtype=kind)) for kind in (data.dtype, dtype)]
        raise ValueError(f"can't alias tensor with dtype '{names[0]}' into dtype '{names[1]}'.")


def _in_host_memory(data: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The arguments with a typed storage that C++ can read item by item: each is a tensor on its device."""
    untyped = data._untyped_storage
    plain = torch._C.StorageBase.__new__(torch.UntypedStorage, untyped.nbytes())
    plain.copy_(untyped)
    copied = torch.TypedStorage(wrap_storage=plain, dtype=data.dtype, _internal=True)
    if args:
        return (copied, *args[1:]), kwargs
    return args, {name: copied if value is data else value for name, value in kwargs.items()}


def sparse(engine: "Engine", func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A sparse tensor of the parts that are given: `device=` moves them there first."""
    spec = kwargs.get("device")
    target = default_device(engine, func) if spec is None else resolve(spec, engine.machine)
    if not isinstance(target, int) or target == META:
        return engine.plain(func, args, kwargs) if target is None else create(engine, func, args, kwargs)

    def there(part: Any) -> Any:
        return move(engine, part, target, name_of(func)) if isinstance(part, _Tensor) else part

    args = tuple(map(there, args))
    return create(engine, func, args, {name: there(part) for name, part in kwargs.items()})


def from_numpy(engine: "Engine", func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`torch.from_numpy`, `frombuffer`, `from_file`: host memory, always on the CPU."""
    with torch._C.DisableTorchFunction():
        result = func(*args, **kwargs)
        set_tag(result, Tag(CPU, Birth(CPU, Action.FROM_NUMPY, name_of(func), here(2), (), False)))
    return result


def install(patches: Patches, engine: "Engine") -> None:
    """Constructors that no mode sees are replaced, so that their tensors have a birth."""
    for name in ("from_numpy", "frombuffer"):
        patches.set(torch, name, _seen(engine, getattr(torch, name)))
    patches.set(torch, "range", _range(engine))


def _range(engine: "Engine") -> Any:
    """`torch.range`, which asks no mode."""
    real = torch.range

    @functools.wraps(real)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not engine.active or kwargs.get("device") is None:
            return real(*args, **kwargs)
        return create(engine, real, args, kwargs)

    return call


def _seen(engine: "Engine", constructor: Any) -> Any:
    @functools.wraps(constructor)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not engine.active:
            return constructor(*args, **kwargs)
        return from_numpy(engine, constructor, args, kwargs)

    return call


def new_tensor(engine: "Engine", func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`Tensor.new_tensor(data)`: on the device of the tensor it is called on."""
    with torch._C.DisableTorchFunction():
        own = device_index(args[0])
    kwargs = dict(kwargs)
    spec = kwargs.pop("device", None)
    target = own if spec is None else resolve(spec, engine.machine)
    data = args[1] if len(args) > 1 else kwargs["data"]
    if isinstance(data, _Tensor) and isinstance(target, int):
        requires_grad = kwargs.pop("requires_grad", False)
        dtype = kwargs.get("dtype") or data.dtype
        result = move(engine, data.detach(), target, "Tensor.new_tensor", dtype, copy=True)
        return result.requires_grad_() if requires_grad else result
    if not isinstance(target, int) or target == META:
        return engine.plain(func, args, {**kwargs, "device": target if target != META else "meta"})
    with torch._C.DisableTorchFunction():
        result = func(*args, **kwargs)
        birth = Birth(target, Action.CREATED, "Tensor.new_tensor", here(2), (), spec is not None)
        set_tag(result, engine.new_tag(target, birth, result))
    return result


def new(engine: "Engine", func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`Tensor.new(…)`, the legacy constructor: on the tensor's own device."""
    with torch._C.DisableTorchFunction():
        own = device_index(args[0])
        data = args[1] if len(args) > 1 else None
        if isinstance(data, _Tensor) and (device_index(data) >= 0) != (own >= 0):
            engine.refuse(_wrong_legacy_device(data, own))
            return move(engine, data, own, "Tensor.new")
        wanted = kwargs.get("device")
        if wanted is not None:
            kinds = ["cuda" if own >= 0 else "cpu", torch.device(wanted).type]
            if kinds[0] != kinds[1]:
                raise RuntimeError(
                    f"legacy constructor expects device type: {kinds[0]} but device type: {kinds[1]} was passed"
                )
            found = resolve(wanted, engine.machine)
            own = found if isinstance(found, int) else own
        result = func(*args, **{k: v for k, v in kwargs.items() if k != "device"})
        # Of one dense tensor it is an alias, whose tag holds; of indices and values, a tensor of its own.
        if not isinstance(data, _Tensor) or result.layout is not torch.strided:
            birth = Birth(own, Action.CREATED, "Tensor.new", here(2), (), False)
            set_tag(result, engine.new_tag(own, birth, result))
    return result


def _wrong_legacy_device(data: torch.Tensor, wanted: int) -> Refusal:
    found = device_index(data)
    expected = tensor_options(data.dtype, "cpu" if wanted < 0 else "cuda")
    message = f"expected {expected} (got {tensor_options(data.dtype, device_name(found))})"
    return Refusal(TypeError, message, "legacy-constructor", (("other", data, found),), wanted, 0)


Handler = Callable[["Engine", Any, tuple[Any, ...], dict[str, Any]], Any]

TABLE: Final[dict[Any, Handler]] = {
    torch.tensor: from_data,
    torch.as_tensor: from_data,
    torch.asarray: from_data,
    torch.from_file: from_numpy,
    torch.sparse_coo_tensor: sparse,
    torch.sparse_csr_tensor: sparse,
    torch.sparse_csc_tensor: sparse,
    torch.sparse_bsr_tensor: sparse,
    torch.sparse_bsc_tensor: sparse,
    torch.sparse_compressed_tensor: sparse,
    _Tensor.new_tensor: new_tensor,
    _Tensor.new: new,
}
