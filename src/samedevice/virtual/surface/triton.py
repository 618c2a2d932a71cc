"""Triton kernels: not run, but launched on the current GPU, where their tensors must be."""

from types import ModuleType
from typing import Any, Final

import torch

from samedevice.virtual.patches import Patches
from samedevice.virtual.refusal import Refusal
from samedevice.virtual.tags import CPU, device_index

#: module → class whose `run` launches
_LAUNCHERS: Final = {"triton.runtime.jit": "JITFunction", "triton.runtime.autotuner": "Autotuner"}


def install(patches: Patches, activation: Any) -> None:
    """Judge launches; a kernel writes nothing."""
    engine = activation.engine

    def run(self: Any, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("warmup"):
            return
        function = getattr(self, "fn", self)
        while hasattr(function, "fn"):
            function = function.fn
        name = getattr(function, "__name__", "kernel")
        with torch._C.DisableTorchFunction():
            refusal = judge(args, kwargs, engine.machine.current)
        if refusal is not None:
            engine.refuse(refusal)
        activation.note(
            f"the Triton kernel `{name}` was not run: what it writes keeps its values here, and what is computed "
            "from them means nothing"
        )

    def patch(module: ModuleType) -> None:
        launcher = getattr(module, _LAUNCHERS[module.__name__], None)
        if launcher is not None and engine.active:
            patches.set(launcher, "run", run)

    for name in _LAUNCHERS:
        patches.on_import(name, patch)


def judge(args: Any, kwargs: dict[str, Any], current: int) -> Refusal | None:
    """A launch uses the current GPU: its pointers must be there."""
    given = [*enumerate(args), *kwargs.items()]
    operands = tuple(
        (str(name), value, device_index(value)) for name, value in given if isinstance(value, torch.Tensor)
    )
    for position, (_, _, device) in enumerate(operands):
        if device == CPU:
            message = "Pointer argument cannot be accessed from Triton (cpu tensor?)"
            return Refusal(ValueError, message, "kernel", operands, current, position)
    for position, (_, _, device) in enumerate(operands):
        if device >= 0 and device != current:
            message = "Triton Error [CUDA]: an illegal memory access was encountered"
            return Refusal(RuntimeError, message, "kernel-on-other-gpu", operands, current, position)
    return None
