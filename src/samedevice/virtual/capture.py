"""What a CUDA graph does: the operations of a block, done again on the same memory.

On CUDA a capture runs nothing: it notes which kernels read and write which memory, and a replay runs them. Here
the block runs once while its operations are noted, so that Python sees values; what it wrote to memory that was
there before is put back when the capture ends, and a replay runs the operations again below autograd, with
their results copied into the memory of the first time.
"""

from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from samedevice.virtual.errors import capturing
from samedevice.virtual.tags import ATTRIBUTE, CPU, device_index

if TYPE_CHECKING:
    from samedevice.virtual.engine import Engine

_Tensor: Final = torch.Tensor
_Disable: Final = torch._C.DisableTorchFunction
#: operators that wait for the GPU, which a capture forbids
_WAITING: Final = frozenset(
    {
        torch.ops.aten._local_scalar_dense.default,
        torch.ops.aten.nonzero.default,
        torch.ops.aten.is_nonzero.default,
        torch.ops.aten.masked_select.default,
        torch.ops.aten._unique2.default,
        torch.ops.aten.equal.default,
    }
)
#: arguments of batch norms, which their schemas do not say are written to
_WRITTEN_UNSAID: Final = frozenset({"running_mean", "running_var"})


class Recording(TorchDispatchMode):
    """Notes the operations on GPU tensors while a graph is captured.

    Attributes:
        calls: (operator, arguments, keywords, results that are memory of their own).
    """

    def __init__(self, engine: "Engine") -> None:
        super().__init__()
        self.engine = engine
        self.calls: list[tuple[Any, Any, Any, list[tuple[int, torch.Tensor]]]] = []
        self._before: dict[int, tuple[Any, Any]] = {}
        self._born: dict[int, Any] = {}
        self._exactly: Any = None
        self._random: Any = None

    def begin(self) -> None:
        """Watch from now on."""
        self.engine.exact_backward = True
        self._random = torch.default_generator.get_state()
        self._exactly = self.engine.exactly()
        self._exactly.__enter__()
        self.__enter__()

    def end(self) -> None:
        """Stop watching; memory that was there before the capture is as it was."""
        self.__exit__(None, None, None)
        self._exactly.__exit__(None, None, None)
        with self.engine.undisturbed():
            for storage, content in self._before.values():
                storage.copy_(content)
            torch.default_generator.set_state(self._random)
        self._before.clear()
        self._born.clear()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        with _Disable():
            given = _flat((args, kwargs))
            on_gpu = any(device_index(tensor) >= 0 for tensor in given)
            if on_gpu and func in _WAITING:
                raise capturing()
            self._keep_what_is_overwritten(func, args, kwargs)
            result = func(*args, **kwargs)
            made = _flat((result,))
            if not on_gpu and not any(device_index(tensor) >= 0 for tensor in made):
                return result
            known = {_address(tensor) for tensor in given}
            fresh = [(i, tensor) for i, tensor in enumerate(made) if _address(tensor) not in known]
            for _, tensor in fresh:
                storage = tensor.untyped_storage()
                self._born[storage._cdata] = storage
            if fresh or func._schema.is_mutable:
                self.calls.append((func, _constants(args), _constants(kwargs), fresh))
            return result

    def _keep_what_is_overwritten(self, func: Any, args: Any, kwargs: Any) -> None:
        for position, argument in enumerate(func._schema.arguments):
            written = argument.alias_info is not None and argument.alias_info.is_write
            if not written and argument.name not in _WRITTEN_UNSAID:
                continue
            value = args[position] if position < len(args) else kwargs.get(argument.name)
            for tensor in _flat((value,)):
                storage = tensor.untyped_storage()
                if storage._cdata not in self._before and storage._cdata not in self._born:
                    content = torch.UntypedStorage(storage.nbytes())
                    content.copy_(storage)
                    self._before[storage._cdata] = storage, content


def replay(engine: "Engine", recording: Recording) -> None:
    """Do it all again."""
    with engine.undisturbed(), torch._C._AutoDispatchBelowAutograd():
        for func, args, kwargs, fresh in recording.calls:
            results = _flat((func(*args, **kwargs),))
            for position, tensor in fresh:
                tensor.copy_(results[position])


def _flat(values: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for value in values.values() if isinstance(values, dict) else values:
        if isinstance(value, _Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple, dict)):
            found += _flat(value)
    return found


def _address(tensor: torch.Tensor) -> int:
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return id(tensor)


def _constants(values: Any) -> Any:
    """Arguments as a graph keeps them: numbers of the host are written into the kernel's call."""
    if isinstance(values, _Tensor):
        if values.dim() == 0 and device_index(values) == CPU:
            number = values.detach().clone()
            setattr(number.untyped_storage(), ATTRIBUTE, getattr(values.untyped_storage(), ATTRIBUTE, None))
            return number
        return values
    if isinstance(values, dict):
        return {name: _constants(value) for name, value in values.items()}
    if type(values) in (list, tuple):
        return type(values)(_constants(value) for value in values)
    return values
