"""Legacy tensor types: `torch.cuda.FloatTensor(2, 3)`, `isinstance(x, torch.cuda.FloatTensor)`."""

import itertools
from typing import Any, Final

import torch

from samedevice.model.scene import Action
from samedevice.virtual.devices import resolve
from samedevice.virtual.patches import Patches
from samedevice.virtual.places import here
from samedevice.virtual.provenance import Birth
from samedevice.virtual.refusal import Refusal
from samedevice.virtual.tags import CPU, device_name
from samedevice.virtual.warned import warn_once

_Disable: Final = torch._C.DisableTorchFunction

#: name, dtype, and how C++ spells the dtype
_TYPES: Final = (
    ("FloatTensor", torch.float32, "float"),
    ("DoubleTensor", torch.float64, "double"),
    ("HalfTensor", torch.float16, "c10::Half"),
    ("BFloat16Tensor", torch.bfloat16, "c10::BFloat16"),
    ("LongTensor", torch.int64, "long int"),
    ("IntTensor", torch.int32, "int"),
    ("ShortTensor", torch.int16, "short int"),
    ("CharTensor", torch.int8, "signed char"),
    ("ByteTensor", torch.uint8, "unsigned char"),
    ("BoolTensor", torch.bool, "bool"),
)
_NO_LONGER_RECOMMENDED: Final = (
    "The torch.cuda.*DtypeTensor constructors are no longer recommended. It's best to use methods such as "
    "torch.tensor(data, dtype=*, device='cuda') to create tensors."
)
_DEPRECATED: Final = (
    "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() and "
    "torch.set_default_device() as alternatives."
)
_SPELLINGS: Final = {dtype: spelling for _, dtype, spelling in _TYPES}


class tensortype(type):  # noqa: N801 - torch's own name
    """The type of a legacy tensor type."""

    dtype: torch.dtype
    is_cuda: bool
    engine: Any
    real: Any

    def __instancecheck__(cls, instance: Any) -> bool:
        if not isinstance(instance, torch.Tensor):
            return False
        with _Disable():
            return (
                instance.dtype is cls.dtype
                and instance.layout is torch.strided
                and (cls.engine.device_of(instance) >= 0) is cls.is_cuda
            )

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        engine = cls.engine
        if cls.is_cuda:
            warn_once(_NO_LONGER_RECOMMENDED)
        name = f"{cls.__module__}.{cls.__name__}"
        kind = "cuda" if cls.is_cuda else "cpu"
        where = resolve(kind, engine.machine)
        device = kwargs.pop("device", None)
        if device is not None:
            wanted = torch.device(device)
            if wanted.type != kind:
                raise RuntimeError(
                    f"legacy constructor expects device type: {kind} but device type: {wanted.type} was passed"
                )
            where = resolve(wanted, engine.machine)
        if len(args) == 1 and isinstance(args[0], torch.Tensor) and not kwargs:
            return _alias(engine, args[0], cls.dtype, kind, name)
        with _Disable():
            made = cls.real(*args, **kwargs)
            birth = Birth(int(where), Action.CREATED, name, here(2), (), cls.is_cuda)
            engine.tag(made, where, birth)
        return made


def tensor_options(dtype: torch.dtype, device: str) -> str:
    """As C++ writes the options of a strided tensor."""
    return (
        f"TensorOptions(dtype={_SPELLINGS.get(dtype, str(dtype))}, device={device}, layout=Strided, "
        "requires_grad=false (default), pinned_memory=false (default), memory_format=(nullopt))"
    )


def _alias(engine: Any, tensor: torch.Tensor, dtype: torch.dtype, kind: str, name: str) -> Any:
    """`torch.cuda.FloatTensor(x)` shares the memory of `x`, which must be of the type already."""
    with _Disable():
        index = engine.device_of(tensor)
        actual = tensor.dtype
    if actual is dtype and (index >= 0) is (kind == "cuda"):
        return torch.ops.aten.alias(tensor)
    message = f"expected {tensor_options(dtype, kind)} (got {tensor_options(actual, device_name(index))})"
    if actual is not dtype:
        raise TypeError(message)
    common = engine.machine.current if kind == "cuda" else CPU
    engine.refuse(Refusal(TypeError, message, "legacy-constructor", (("other", tensor, index),), common, 0))
    return tensor.to(kind)


def install(patches: Patches, engine: Any) -> None:
    """Stand in for the types of both devices: those of the CPU must not claim a GPU's tensors."""
    for module, (name, dtype, _) in itertools.product((torch, torch.cuda), _TYPES):
        attributes = {
            "__module__": module.__name__,
            "dtype": dtype,
            "layout": torch.strided,
            "is_cuda": module is torch.cuda,
            "is_sparse": False,
            "engine": engine,
            "real": getattr(torch, name),
        }
        patches.set(module, name, tensortype(name, (), attributes))
    _default_type(patches)


def _default_type(patches: Patches) -> None:
    """`torch.set_default_tensor_type`: a dtype and a device in one."""
    real = torch.set_default_tensor_type
    dtype = torch.get_default_dtype()

    def set_default_tensor_type(t: Any, /) -> None:
        kind = torch._utils._import_dotted_name(t) if isinstance(t, str) else t
        if not isinstance(kind, tensortype):
            real(kind)
            return
        warn_once(_DEPRECATED)
        if not kind.dtype.is_floating_point:
            raise TypeError("only floating-point types are supported as the default type")
        torch.set_default_dtype(kind.dtype)
        torch.set_default_device("cuda" if kind.is_cuda else None)

    patches.set(torch, "set_default_tensor_type", set_default_tensor_type)
    patches.on_undo(lambda: torch.set_default_dtype(dtype))
    context = torch._GLOBAL_DEVICE_CONTEXT
    before = getattr(context, "device_context", None)

    def restore_device() -> None:
        # A default device that the program left behind names a GPU that is gone.
        now = getattr(context, "device_context", None)
        if now is not before:
            torch.set_default_device(None if before is None else before.device)

    patches.on_undo(restore_device)
