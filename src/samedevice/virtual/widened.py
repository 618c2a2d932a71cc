"""Element types that CUDA computes with and the CPU has no kernel for: computed in a wider type.

`torch.histc` of integers (mixtures of experts count their tokens so), half precision in a few
functions, Fourier transforms of half precision and what follows them in complex halves. The CPU
refuses first; then the call is made again in a wider type, and the result has the type that CUDA
gives it.
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import torch

from samedevice.virtual.moves import move

if TYPE_CHECKING:
    from samedevice.virtual.engine import Engine

_INTEGERS: Final = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})
_HALF: Final = frozenset({torch.float16})
_HALVES: Final = frozenset({torch.float16, torch.bfloat16})
_BOOLEAN: Final = frozenset({torch.bool})
_COMPLEX: Final = frozenset({torch.complex32})
#: as the CPU refuses an element type
_REFUSED: Final = re.compile(r"not implemented for '|Unsupported dtype Half|support tensors of type: Half")

_TRANSFORMS: Final = (
    "fft ifft fft2 ifft2 fftn ifftn rfft irfft rfft2 irfft2 rfftn irfftn hfft ihfft hfft2 ihfft2 hfftn ihfftn"
).split()
_OF_COMPLEX: Final = (
    "acos acosh angle asin asinh atan atanh cos cosh div exp lerp log logaddexp pow prod rsqrt sigmoid sin sinh "
    "sqrt sum tan tanh true_divide"
).split()
_OPERATORS: Final = "__pow__ __rpow__ __rtruediv__ __truediv__".split()

#: name of a function, where it lives, and the types that only CUDA takes
_TABLE: Final = (
    ("histc", (torch, torch.Tensor), _INTEGERS),
    ("polygamma", (torch, torch.Tensor, torch.special), _HALF),
    ("rrelu", (torch,), _HALF),
    ("rrelu_", (torch,), _HALF),
    ("avg_pool3d", (torch._C._nn,), _HALVES),
    ("_upsample_bilinear2d_aa", (torch._C._nn,), _HALVES),
    ("_upsample_bicubic2d_aa", (torch._C._nn,), _HALVES),
    ("multi_margin_loss", (torch._C._nn,), _HALVES),
    ("multilabel_margin_loss", (torch._C._nn,), _HALVES),
    ("abs", (torch, torch.Tensor), _BOOLEAN),
    ("trace", (torch, torch.Tensor), _BOOLEAN | _COMPLEX),
    *((name, (torch.fft,), _HALF | _COMPLEX) for name in _TRANSFORMS),
    *((name + suffix, (torch, torch.Tensor), _COMPLEX) for name in _OF_COMPLEX for suffix in ("", "_")),
    *((name, (torch.Tensor,), _COMPLEX) for name in _OPERATORS),
)
FUNCTIONS: Final[dict[Any, frozenset[torch.dtype]]] = {
    getattr(owner, name): dtypes
    for name, owners, dtypes in _TABLE
    for owner in owners
    if hasattr(owner, name)
}

_WIDE: Final = {
    torch.bool: torch.uint8,
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.complex32: torch.complex64,
    **dict.fromkeys(_INTEGERS, torch.float64),
}
#: a function of half precision has a real or a complex result
_BY_PARTS: Final = {torch.float32: torch.float16, torch.complex64: torch.complex32}


def concerns(
    engine: "Engine", func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], error: RuntimeError
) -> bool:
    """Whether the CPU has refused the type of an operand that CUDA takes."""
    if func not in FUNCTIONS or "out" in kwargs or _REFUSED.search(str(error)) is None:
        return False
    first = _first(args, kwargs)
    if first is None:
        return False
    with torch._C.DisableTorchFunction():
        return first.dtype in FUNCTIONS[func] and engine.device_of(first) >= 0


def call(
    engine: "Engine", run: Callable[..., Any], func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """What `func` gives in a wider type, in the type that CUDA gives it."""
    first = _first(args, kwargs)
    assert first is not None
    dtype = first.dtype
    wide = _WIDE[dtype]
    narrow = _BY_PARTS if dtype in _BY_PARTS.values() else {wide: dtype}

    def cast(value: torch.Tensor, target: torch.dtype) -> torch.Tensor:
        with torch._C.DisableTorchFunction():
            device = engine.device_of(value)
        return move(engine, value, device, func.__name__, target)

    def widen(value: Any) -> Any:
        return cast(value, wide) if isinstance(value, torch.Tensor) and value.dtype is dtype else value

    result = run(func, tuple(map(widen, args)), {name: widen(value) for name, value in kwargs.items()})
    if func.__name__.endswith("_") and not func.__name__.endswith("__"):
        return run(torch.Tensor.copy_, (first, result), {})
    if "dtype" in kwargs or not isinstance(result, torch.Tensor) or result.dtype not in narrow:
        return result
    return cast(result, narrow[result.dtype])


def _first(args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor | None:
    return next((v for v in (*args, *kwargs.values()) if isinstance(v, torch.Tensor)), None)
