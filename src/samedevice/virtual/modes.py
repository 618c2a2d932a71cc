"""The two modes: thin wrappers that hand every call over to the engine."""

from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from samedevice.virtual.engine import Engine
from samedevice.virtual.functions import Functions

_DisableTorchFunction = torch._C.DisableTorchFunction


class VirtualFunctionMode(TorchFunctionMode):
    """Answers for devices at the level of torch's functions."""

    def __init__(self, functions: Functions) -> None:
        self.functions = functions

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.functions.call(func, args, kwargs)


class VirtualDispatchMode(TorchDispatchMode):
    """Sees every ATen operation, after autograd and composite functions."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.engine = engine

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with _DisableTorchFunction():
            return self.engine.dispatch(func, args, kwargs or {})
