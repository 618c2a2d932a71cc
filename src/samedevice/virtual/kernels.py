"""Running an operation on the CPU, and what runs in the place of CUDA's code where the CPU has no kernel.

A kernel that is written in Python for CUDA is what would run, so it runs, whoever registered it. What is compiled
code, or launches some, cannot run here: the operator's shapes come from its kernel for meta tensors, and its
results are zeros. Nothing can be concluded from their values, and the report says so.
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import torch

from samedevice.virtual import torchscript
from samedevice.virtual.callbacks import BUILTIN
from samedevice.virtual.check import wording
from samedevice.virtual.refusal import Refusal
from samedevice.virtual.tags import CPU, device_index

if TYPE_CHECKING:
    from samedevice.virtual.engine import Engine

_Tensor: Final = torch.Tensor
_CONVOLUTION: Final = torch.ops.aten.convolution.default
_CUDA_KERNEL: Final = re.compile(r"^CUDA(?:\[alias\])?: registered at (.+):\d+ :: ", re.MULTILINE)
_CUDA_KEYS: Final = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)
_has_kernel: Final = torch._C._dispatch_has_computed_kernel_for_dispatch_key
#: packages whose code runs on a GPU
_GPU_PACKAGES: Final = frozenset(
    {"triton", "cupy", "numba", "pycuda", "cuda", "cutlass", "tilelang", "warp", "flash_attn", "helion"}
)


def run(
    engine: "Engine", func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], device: int | None
) -> Any:
    """One ATen operation, its operands on `device`, run on the CPU."""
    on_gpu = device is not None and device >= 0
    if func.namespace not in BUILTIN:
        return _run_custom(engine, func, args, kwargs, on_gpu)
    if func is _CONVOLUTION and torch._C._get_tracing_state() is not None:
        with torchscript.recorded_in_the_trace():
            return func(*args, **kwargs)
    try:
        return func(*args, **kwargs)
    except NotImplementedError as error:
        if not on_gpu:
            raise
        return _stand_in(engine, func, args, kwargs, error)
    except RuntimeError as error:
        if "Expected a value of type 'Tensor'" not in str(error):
            raise
        return func(*_numbers_as_tensors(func, args), **kwargs)


def _numbers_as_tensors(func: Any, args: tuple[Any, ...]) -> list[Any]:
    """The arguments with traced code's numbers, which C++ hands over as such, made tensors again."""
    taken = list(args)
    for i, (value, argument) in enumerate(zip(args, func._schema.arguments, strict=False)):
        if isinstance(value, (bool, int, float, complex)) and str(argument.type) == "Tensor":
            dtype = {float: torch.float64, complex: torch.complex128}.get(type(value))
            taken[i] = torch.tensor(value, dtype=dtype)
    return taken


def _run_custom(engine: "Engine", func: Any, args: Any, kwargs: Any, on_gpu: bool) -> Any:
    """An operator that is not PyTorch's own."""
    kernel = _python_kernel(engine, func, args, kwargs, on_gpu)
    try:
        if kernel is None or engine.entered_again is None:
            return func(*args, **kwargs)
        # Its own operations are judged too, as they would be on CUDA.
        with engine.entered_again():
            return kernel(*args, **kwargs)
    except Exception as error:
        if not on_gpu or not (kernel is None or _is_gpu_code(error)):
            raise
        return _stand_in(engine, func, args, kwargs, error)


def _python_kernel(
    engine: "Engine", func: Any, args: Any, kwargs: Any, on_gpu: bool
) -> Callable[..., Any] | None:
    definition = torch._library.custom_ops.OPDEFS.get(func._schema.name)
    if definition is not None:
        kernels = definition._backend_fns
        kernel = kernels.get("cuda" if on_gpu else "cpu") or kernels.get(None)
        if (
            kernel is None
            and on_gpu
            and kernels.get("cpu") is not None
            and not _has_kernel(_name(func), "CUDA")
        ):
            operands = tuple(
                (argument.name, value, device_index(value))
                for argument, value in zip(func._schema.arguments, args, strict=False)
                if isinstance(value, _Tensor)
            )
            message = wording.cannot_run(func._schema.name)
            engine.refuse(Refusal(NotImplementedError, message, "host-only", operands, CPU, 0))
        return kernel
    if not on_gpu:
        return None
    registered = _CUDA_KERNEL.search(torch._C._dispatch_dump(_name(func)))
    if registered is None or not registered[1].endswith(".py"):
        return None
    return lambda *args, **kwargs: func.redispatch(_CUDA_KEYS, *args, **kwargs)


def _name(func: Any) -> str:
    overload = func._schema.overload_name
    return str(func._schema.name) + (f".{overload}" if overload else "")


def _is_gpu_code(error: BaseException) -> bool:
    """Raised inside a package whose code needs a GPU, or because it is not installed."""
    if isinstance(error, ImportError):
        return str(error.name or "").partition(".")[0] in _GPU_PACKAGES
    traceback = error.__traceback__
    while traceback is not None:
        module = str(traceback.tb_frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] in _GPU_PACKAGES:
            return True
        traceback = traceback.tb_next
    return False


def _stand_in(engine: "Engine", func: Any, args: Any, kwargs: Any, error: BaseException) -> Any:
    """Zeros of the shapes that the operator's kernel for meta tensors gives.

    Raises:
        the error: the operator was not the one without a kernel, or has none for meta tensors either.
    """
    missing = isinstance(error, NotImplementedError) and str(error).startswith("Could not run '")
    if missing and f"'{func._schema.name}'" not in str(error).partition(" with arguments")[0]:
        raise error
    if (not missing and not _is_gpu_code(error)) or not _has_kernel(_name(func), "Meta"):
        raise error
    real: dict[int, Any] = {}

    def to_meta(value: Any) -> Any:
        if isinstance(value, _Tensor):
            if value.layout != torch.strided:
                raise error
            made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
            real[id(made)] = value, made
            return made
        if isinstance(value, (list, tuple)):
            return type(value)(to_meta(item) for item in value)
        return torch.device("meta") if isinstance(value, torch.device) else value

    def to_zeros(value: Any) -> Any:
        if isinstance(value, _Tensor):
            if id(value) in real:
                return real[id(value)][0]
            made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="cpu")
            return made.zero_()
        if isinstance(value, (list, tuple)):
            return type(value)(to_zeros(item) for item in value)
        return value

    try:
        with torch.no_grad():
            shapes = func(*to_meta(tuple(args)), **{name: to_meta(value) for name, value in kwargs.items()})
            results = to_zeros(shapes)
    except Exception:
        raise error from None
    engine.session.note(
        f"`{func._schema.name}` has no version for the CPU: its results are zeros here, and what is computed from "
        "them means nothing"
    )
    return results
