"""The two modes: thin wrappers that hand every call over to the engine."""

from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from samedevice.virtual import typenames
from samedevice.virtual.engine import Engine
from samedevice.virtual.functions import Functions
from samedevice.virtual.tags import is_wrapper

_DisableTorchFunction = torch._C.DisableTorchFunction


class VirtualFunctionMode(TorchFunctionMode):
    """Answers for devices at the level of torch's functions."""

    def __init__(self, functions: Functions) -> None:
        self.functions = functions

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            return self.functions.call(func, args, kwargs)
        except torch.OutOfMemoryError as error:
            # The program may free its tensors and try again: our frames must not keep them alive.
            error.__traceback__ = error.__context__ = None
            del args, kwargs
            raise
        except (RuntimeError, TypeError) as error:
            worded = typenames.correct(error, self.functions.engine, func, args, kwargs)
            if worded is not error:
                raise worded from None
            raise


class VirtualDispatchMode(TorchDispatchMode):
    """Sees every ATen operation, after autograd and composite functions."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # The wrapper that keeps dynamo away costs more than the mode itself; compiled functions run
        # eagerly on virtual GPUs, so there is nothing to keep away.
        return False

    @classmethod
    def is_infra_mode(cls) -> bool:
        return True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.engine = engine

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if types and any(map(is_wrapper, types)):
            return NotImplemented  # it calls the operations on what it wraps; those are judged
        with _DisableTorchFunction():
            return self.engine.dispatch(func, args, kwargs or {})
