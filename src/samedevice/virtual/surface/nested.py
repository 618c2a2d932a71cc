"""Nested tensors: their constructors, of which one asks no mode and one takes its device by position."""

from typing import Any, Final

import torch

from samedevice.model.scene import Action
from samedevice.virtual import check
from samedevice.virtual.check import check_function
from samedevice.virtual.devices import REAL_CPU, resolve
from samedevice.virtual.patches import Patches
from samedevice.virtual.places import here
from samedevice.virtual.provenance import Birth
from samedevice.virtual.tags import CPU, META, device_index

_OF_LIST: Final = torch.ops.aten._nested_tensor_from_tensor_list.default


def install(patches: Patches, engine: Any) -> None:
    """Tag what `torch.nested.nested_tensor` makes."""
    real = torch._C._nested.nested_tensor

    def nested_tensor(tensor_list: Any, *, device: Any = None, **options: Any) -> Any:
        if not engine.active:
            return real(tensor_list, device=device, **options)
        first = tensor_list[0] if tensor_list else None
        with torch._C.DisableTorchFunction():
            if device is not None:
                target = resolve(device, engine.machine)
            else:
                target = device_index(first) if isinstance(first, torch.Tensor) else CPU
            if not isinstance(target, int) or target == META:
                return real(tensor_list, device=device, **options)
            refusal = None if device is not None else check_function(real, (tensor_list,), {}, device_index)
            if refusal is not None:
                engine.refuse(refusal)
            _judge(engine, tensor_list)
            if options.get("pin_memory") and target >= 0:
                raise RuntimeError("Only dense CPU tensors can be pinned")
            made = real(tensor_list, device=REAL_CPU, **{**options, "pin_memory": False})
            birth = Birth(
                target, Action.CREATED, "torch.nested.nested_tensor", here(2), (), device is not None
            )
            engine.tag(made, target, birth)
        return made

    patches.set(torch._C._nested, "nested_tensor", nested_tensor)


def _judge(engine: Any, tensors: Any) -> None:
    """The parts are put together where they are, whatever device is asked for."""
    refusal = check.check_op(_OF_LIST, (list(tensors),), {}, device_index)
    if refusal is not None:
        engine.refuse(refusal)


def from_tensors(func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any], engine: Any) -> Any:
    """`torch._nested_tensor_from_tensor_list(list, dtype, layout, device, pin_memory)`."""
    from samedevice.virtual import creation

    names = ("dtype", "layout", "device", "pin_memory")
    named = {name: value for name, value in zip(names, args[1:], strict=False) if value is not None}
    if named.get("device", kwargs.get("device")) is None:
        return engine.plain(func, args, kwargs)
    with torch._C.DisableTorchFunction():
        _judge(engine, args[0])
    return creation.create(engine, func, args[:1], {**kwargs, **named})


HANDLERS = {torch._nested_tensor_from_tensor_list: from_tensors}
