"""Attention whose chosen backend only a GPU has: where the CPU has no kernel, the composite one computes it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import torch

if TYPE_CHECKING:
    from samedevice.virtual.engine import Engine

#: how `scaled_dot_product_attention` says that no enabled backend takes the operands; the first is the CPU's alone
_REFUSED: Final = ("No viable backend for scaled_dot_product_attention", "No available kernel.")


def attend(
    engine: "Engine", run: Callable[..., Any], func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """`scaled_dot_product_attention` under `torch.nn.attention.sdpa_kernel` and its kin.

    The CPU has the flash and the composite ("math") backend, CUDA memory-efficient attention and cuDNN's too.
    A program that allows nothing but these is computed with the composite one.

    Raises:
        RuntimeError: no backend is enabled at all, as on CUDA.
    """
    try:
        return run(engine, func, args, kwargs)
    except RuntimeError as error:
        query = args[0] if args else kwargs.get("query")
        if not str(error).startswith(_REFUSED) or not _has_fused() or not isinstance(query, torch.Tensor):
            raise
        with torch._C.DisableTorchFunction():
            if engine.device_of(query) < 0:
                raise
    torch._C._set_sdp_use_math(True)
    try:
        return run(engine, func, args, kwargs)
    finally:
        torch._C._set_sdp_use_math(False)


def _has_fused() -> bool:
    cuda = torch.backends.cuda
    return cuda.flash_sdp_enabled() or cuda.mem_efficient_sdp_enabled() or cuda.cudnn_sdp_enabled()
