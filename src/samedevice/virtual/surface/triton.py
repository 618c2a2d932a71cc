"""Triton kernels: not run, but launched on the current GPU, where their tensors must be."""

import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import Any, Final

import torch

from samedevice.virtual.patches import Patches
from samedevice.virtual.refusal import Refusal
from samedevice.virtual.tags import CPU, device_index

#: module → class whose `run` launches
_LAUNCHERS: Final = {"triton.runtime.jit": "JITFunction", "triton.runtime.autotuner": "Autotuner"}


class _Arriving(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Patches a launcher's module when the program imports it."""

    def __init__(self, patch: Any) -> None:
        self.patch = patch
        self.loaders: dict[str, Any] = {}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in _LAUNCHERS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            self.loaders[name] = spec.loader
            spec.loader = self
        return spec

    def create_module(self, spec: Any) -> Any:
        return self.loaders[spec.name].create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        loader = self.loaders[module.__name__]
        loader.exec_module(module)
        if module.__spec__ is not None:
            module.__spec__.loader = loader
        module.__loader__ = loader
        self.patch(module)


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
        if name in sys.modules:
            patch(sys.modules[name])
    finder = _Arriving(patch)
    sys.meta_path.insert(0, finder)
    patches.on_undo(lambda: sys.meta_path.remove(finder))


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
