"""CUDA's own exceptions, in its words."""

from typing import Any

import torch

from samedevice.virtual.machine import OutOfMemory

_INITIALIZATION_ERROR = 3
_INVALID_DEVICE = 101
_STREAM_CAPTURE_UNSUPPORTED = 900
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def cuda_error(code: int, text: str, hint: str = "") -> BaseException:
    """What `C10_CUDA_CHECK` throws."""
    error: Any = torch._C.AcceleratorError(f"CUDA error: {text}{hint}\n")
    error.error_code = code
    return error


def invalid_ordinal() -> BaseException:
    """`cuda:7` on a machine with fewer GPUs."""
    return cuda_error(
        _INVALID_DEVICE,
        "invalid device ordinal",
        "\nGPU device may be out of range, do you have enough GPUs?",
    )


def uninitialized() -> BaseException:
    """A CUDA call in a child forked after CUDA was used, on a tensor that came through the fork."""
    return cuda_error(
        _INITIALIZATION_ERROR,
        "initialization error",
        "\nSearch for `cudaErrorInitializationError' in "
        "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information.",
    )


def capturing() -> BaseException:
    """Waiting for the GPU while a CUDA graph is captured."""
    return cuda_error(
        _STREAM_CAPTURE_UNSUPPORTED,
        "operation not permitted when stream is capturing",
        "\nSearch for `cudaErrorStreamCaptureUnsupported' in "
        "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information.",
    )


def format_size(size: int) -> str:
    """As the caching allocator writes a number of bytes."""
    for unit, name in _UNITS:
        if size >= unit:
            return f"{size / unit:.2f} {name}"
    return f"{size} bytes"


def out_of_memory(error: OutOfMemory) -> BaseException:
    """The caching allocator's message for an allocation that does not fit."""
    memory = error.memory
    reserved = max(memory.reserved, memory.allocated)
    return torch._C.OutOfMemoryError(
        f"CUDA out of memory. Tried to allocate {format_size(error.wanted)}. "
        f"GPU {error.device} has a total capacity of {format_size(memory.total)} "
        f"of which {format_size(max(memory.total - reserved, 0))} is free. "
        f"Of the allocated memory {format_size(memory.allocated)} is allocated by PyTorch, "
        f"and {format_size(reserved - memory.allocated)} is reserved by PyTorch but unallocated. "
        "If reserved but unallocated memory is large try setting "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  "
        "See documentation for Memory Management  "
        "(https://docs.pytorch.org/docs/stable/notes/cuda.html"
        "#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)"
    )
