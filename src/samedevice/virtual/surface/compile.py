"""`torch.compile` runs eagerly: a compiler would look past the modes that make a GPU virtual."""

from collections.abc import Callable
from typing import Any

import torch

from samedevice.virtual.patches import Patches

_NOTE = "`torch.compile` ran eagerly: compiled code cannot be observed on virtual GPUs"


def install(patches: Patches, activation: Any) -> None:
    """Wrap modules as `torch.compile` does, and leave the code as it is."""

    def compile_(model: Any = None, **options: Any) -> Any:
        if model is None:

            def decorate(function: Callable[..., Any]) -> Any:
                return compile_(function, **options)

            return decorate
        activation.note(_NOTE)
        if isinstance(model, torch.nn.Module) and not options.get("disable"):
            # The wrapper shows: the names in its state dict begin with `_orig_mod.`
            from torch._dynamo import eval_frame

            return eval_frame.OptimizedModule(model, eval_frame._NullDecorator())
        return model

    # What resets the compiler imports its CUDA graphs where CUDA is built in.
    for name, stand_in in (
        ("_cuda_CUDAAllocator_AllocatorState", type("AllocatorState", (), {})),
        ("_set_cached_tensors_enabled", lambda enabled: None),
    ):
        if not hasattr(torch._C, name):
            patches.set(torch._C, name, stand_in)

    compile_.__name__ = compile_.__qualname__ = "compile"
    compile_.__module__ = "torch"
    patches.set(torch, "compile", compile_)
