"""Element types that CUDA computes with and the CPU has no kernel for: computed in a wider type.

`torch.histc` of integers (mixtures of experts count their tokens so), half precision in a few
functions. The result has the type that CUDA gives it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import torch

from samedevice.virtual.moves import move

if TYPE_CHECKING:
    from samedevice.virtual.engine import Engine

_INTEGERS: Final = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})
_HALF: Final = frozenset({torch.float16})
_HALVES: Final = frozenset({torch.float16, torch.bfloat16})

#: name of a function, where it lives, and the types that only CUDA takes
_TABLE: Final = (
    ("histc", (torch, torch.Tensor), _INTEGERS),
    ("polygamma", (torch, torch.Tensor, torch.special), _HALF),
    ("rrelu", (torch,), _HALF),
    ("avg_pool3d", (torch._C._nn,), _HALVES),
    ("_upsample_bilinear2d_aa", (torch._C._nn,), _HALVES),
    ("_upsample_bicubic2d_aa", (torch._C._nn,), _HALVES),
    ("multi_margin_loss", (torch._C._nn,), _HALVES),
    ("multilabel_margin_loss", (torch._C._nn,), _HALVES),
)
FUNCTIONS: Final[dict[Any, frozenset[torch.dtype]]] = {
    getattr(owner, name): dtypes
    for name, owners, dtypes in _TABLE
    for owner in owners
    if hasattr(owner, name)
}


def call(
    engine: "Engine",
    run: Callable[..., Any],
    func: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Run `func`; in a wider type when its operand is on a GPU and of a type that only CUDA takes."""
    first = next((v for v in (*args, *kwargs.values()) if isinstance(v, torch.Tensor)), None)
    if first is None or "out" in kwargs:
        return run(func, args, kwargs)
    with torch._C.DisableTorchFunction():
        dtype = first.dtype
        concerned = dtype in FUNCTIONS[func] and engine.device_of(first) >= 0
    if not concerned:
        return run(func, args, kwargs)
    wide = torch.float32 if dtype.is_floating_point else torch.float64

    def cast(value: Any, source: torch.dtype, target: torch.dtype) -> Any:
        if not isinstance(value, torch.Tensor) or value.dtype is not source:
            return value
        with torch._C.DisableTorchFunction():
            device = engine.device_of(value)
        return move(engine, value, device, func.__name__, target)

    def widen(value: Any) -> Any:
        return cast(value, dtype, wide)

    result = run(func, tuple(map(widen, args)), {name: widen(value) for name, value in kwargs.items()})
    return cast(result, wide, dtype)
