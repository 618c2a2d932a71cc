"""Tells the recorder what happens on virtual GPUs: moves and the functions that read on the host."""

import types
import weakref
from collections.abc import Callable
from typing import Any, Final

import torch

from samedevice.profile.recorder import Origin, Recorder
from samedevice.profile.watching import Watching, is_written, nbytes_of, shape_of

_Tensor: Final = torch.Tensor
_GPU: Final = 0  # devices of the engine: the CPU is below, GPUs are their index

#: functions that read a tensor of the GPU on the host: function → name of the reason
_READS: Final[dict[str, str]] = {
    "item": "item",
    "tolist": "tolist",
    "__bool__": "bool",
    "__int__": "int",
    "__float__": "float",
    "__complex__": "complex",
    "__index__": "index",
    "is_nonzero": "bool",
    "nonzero": "nonzero",
    "argwhere": "nonzero",
    "masked_select": "masked_select",
    "_unique2": "unique",
    "unique_dim": "unique",
    "unique_consecutive": "unique",
    "bincount": "bincount",
    "equal": "equal",
    "allclose": "allclose",
    "multinomial": "multinomial",
    "repeat_interleave": "repeat_interleave",
}

#: made of data of the host, which has to cross the bus in any case
_OF_HOST_DATA: Final = frozenset(("torch.tensor", "torch.as_tensor", "torch.asarray", "torch.Tensor"))

#: these return the tensor's whole content
_WHOLE: Final = frozenset({"tolist"})


class Hooks(Watching):
    """Connects one recorder to one engine of virtual GPUs.

    Args:
        engine: has `listeners`, `state.exact`, `plain`.
        functions: has the `table` of handlers and the default tier.
        index_of: device index of a tensor (negative on the host).
        tag_of: the tag of a tensor: `birth`, `pinned`.
    """

    def __init__(
        self,
        recorder: Recorder,
        engine: Any,
        functions: Any,
        index_of: Callable[[Any], int],
        tag_of: Callable[[Any], Any],
    ) -> None:
        super().__init__(recorder)
        self.engine = engine
        self.functions = functions
        self.index_of = index_of
        self.tag_of = tag_of
        self._parameters: weakref.WeakSet[Any] = weakref.WeakSet()

    def attach(self) -> None:
        """Listen to moves and to the functions that read."""
        super().attach()
        self.engine.listeners.append(self.moved)
        self.undo.append(lambda: self.engine.listeners.remove(self.moved))
        self._wrap_table()

    # -- moves -----------------------------------------------------------------------------------

    def moved(self, event: tuple[Any, ...]) -> None:
        """The engine moved a tensor."""
        name, source, target, tensor, pinned, non_blocking, function, *result = event
        if name != "transfer" or self.recorder.inside:
            return
        self._transfer(source, target, tensor, bool(pinned), bool(non_blocking), function)
        if result and isinstance(tensor, torch.nn.Parameter):
            tag = self.tag_of(result[0])
            if tag is not None:
                self._parameters.add(tag)

    def _transfer(
        self, source: int, target: int, tensor: Any, pinned: bool, non_blocking: bool, function: str
    ) -> None:
        what = "h2d" if source < _GPU else "d2h" if target < _GPU else "d2d"
        tag = self.tag_of(tensor)
        birth = None if tag is None else tag.birth
        if what == "d2h" and non_blocking:
            pinned = True  # PyTorch allocates the copy in pinned memory then
        self.recorder.transfer(
            what,
            nbytes_of(tensor),
            pinned=pinned,
            non_blocking=non_blocking,
            function=function,
            dtype=str(tensor.dtype).removeprefix("torch."),
            shape=shape_of(tensor),
            content=_content(tensor, birth),
            origin=origin_of(birth, is_written(tensor)),
            parameter=isinstance(tensor, torch.nn.Parameter) or tag in self._parameters,
        )

    # -- functions -------------------------------------------------------------------------------

    def _wrap_table(self) -> None:
        table = self.functions.table
        for name, reason in _READS.items():
            for owner in (_Tensor, torch, torch._C._VariableFunctions):
                function = getattr(owner, name, None)
                # Python functions of torch run in the open; what they call is seen.
                if function is not None and not isinstance(function, types.FunctionType):
                    self._wrap(table, function, self._reading(reason, function))
        self._wrap(table, _Tensor.__getitem__, self._indexing)
        self._wrap(table, _Tensor.__setitem__, self._assigning)
        self._wrap(table, _Tensor.copy_, self._copying)
        self._wrap(table, torch.where, self._where)
        for factory in (torch.tensor, torch.as_tensor, torch.asarray):
            self._wrap(table, factory, self._making)

    def _wrap(self, table: dict[Any, Any], function: Any, before: Callable[..., Any]) -> None:
        original = table.get(function)

        def handle(engine: Any, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            def go() -> Any:
                if original is not None:
                    return original(engine, func, args, kwargs)
                if engine.state.exact:
                    return engine.plain(func, args, kwargs)
                return self.functions.fast.call(func, args, kwargs)

            return before(go, args, kwargs)

        table[function] = handle

        def restore() -> None:
            if original is None:
                del table[function]
            else:
                table[function] = original

        self.undo.append(restore)

    def on_gpu(self, value: Any) -> bool:
        if not isinstance(value, _Tensor):
            return False
        with torch._C.DisableTorchFunction():
            return self.index_of(value) >= _GPU

    def _reading(self, reason: str, function: Any) -> Callable[..., Any]:
        name = getattr(function, "__name__", reason)

        def read(go: Callable[[], Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            tensor: Any = args[0] if args else kwargs.get("input")
            if self.recorder.inside or not self.on_gpu(tensor) or _needs_no_read(reason, args, kwargs):
                return go()
            with torch._C.DisableTorchFunction():
                nbytes = nbytes_of(tensor) if reason in _WHOLE else tensor.element_size()
                shape, dtype = shape_of(tensor), str(tensor.dtype).removeprefix("torch.")
            self.recorder.sync(reason, nbytes, function=name, shape=shape, dtype=dtype)
            return self.as_one(go)

        return read

    def _indexing(self, go: Callable[[], Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not self.recorder.inside and len(args) > 1 and self.on_gpu(args[0]):
            self._index(args[1])
        return go()

    def _index(self, index: Any, fills: bool = False) -> None:
        """What an index of a GPU tensor makes the host do."""
        for part in index if isinstance(index, tuple) else (index,):
            if not isinstance(part, _Tensor):
                continue
            with torch._C.DisableTorchFunction():
                on_gpu = self.index_of(part) >= _GPU
                mask = part.dtype in (torch.bool, torch.uint8)
                scalar = part.dim() == 0
                shape, dtype = shape_of(part), str(part.dtype).removeprefix("torch.")
            if mask and not scalar and not fills and on_gpu:
                self.recorder.sync("mask", 8, function="indexing", shape=shape, dtype=dtype)
            elif not mask and scalar and on_gpu:
                self.recorder.sync("item", part.element_size(), function="indexing", dtype=dtype)

    def _assigning(self, go: Callable[[], Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.recorder.inside or len(args) < 3:
            return go()
        target, index, value = args[:3]
        if self.on_gpu(target):
            # One value under a mask is a masked_fill, which asks the host for nothing.
            fills = not isinstance(value, _Tensor) or value.numel() == 1
            self._index(index, fills=fills)
        self._copy(target, value, False, "Tensor.__setitem__")
        return go()

    def _copying(self, go: Callable[[], Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not self.recorder.inside and args:
            source = args[1] if len(args) > 1 else kwargs.get("src")
            non_blocking = args[2] if len(args) > 2 else kwargs.get("non_blocking", False)
            self._copy(args[0], source, bool(non_blocking), "Tensor.copy_")
        return go()

    def _copy(self, target: Any, source: Any, non_blocking: bool, function: str) -> None:
        if not isinstance(target, _Tensor) or not isinstance(source, _Tensor):
            return
        with torch._C.DisableTorchFunction():
            there, here = self.index_of(target), self.index_of(source)
            if there == here or min(there, here) < -1:
                return
            tag = self.tag_of(source)
            pinned = tag is not None and bool(tag.pinned)
            self._transfer(here, there, source, pinned, non_blocking, function)

    def _where(self, go: Callable[[], Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if len(args) == 1 and not kwargs and not self.recorder.inside and self.on_gpu(args[0]):
            self.recorder.sync("nonzero", 8, function="where")
        return go()

    def _making(self, go: Callable[[], Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """`torch.tensor(data, device="cuda")` copies host data."""
        if self.recorder.inside or (args and self.on_gpu(args[0])):
            return go()
        result = self.as_one(go)
        if self.on_gpu(result):
            with torch._C.DisableTorchFunction():
                self.recorder.transfer(
                    "h2d",
                    nbytes_of(result),
                    pinned=False,
                    non_blocking=False,
                    function="torch.tensor",
                    dtype=str(result.dtype).removeprefix("torch."),
                    shape=shape_of(result),
                    origin=Origin("host-data"),
                )
        return result


def origin_of(birth: Any, written: bool = False) -> Origin | None:
    """What the engine knows of a tensor's birth, in the recorder's words.

    Args:
        written: something was written into it since; filling a tensor on the CPU and moving it as a
            whole is how a batch is put together, and no mistake.
    """
    if birth is None:
        return None
    roots = birth.roots
    factory = not written and all(
        root.action == "created"
        and not root.explicit_device
        and not root.parents
        and root.function not in _OF_HOST_DATA
        and _is_same_line(root.place, birth.place)
        for root in roots
    )
    left = next(
        (root for root in roots if root.action == "moved" and root.device < _GPU and root.parents), None
    )
    if left is not None and left.parents[0].device < _GPU:
        left = None
    first = roots[0]
    return Origin(
        str(birth.action) if not birth.parents or birth.action == "moved" else str(first.action),
        first.function if birth.action == "derived" else birth.function,
        first.place,
        min(root.seq for root in roots),
        factory,
        None if left is None else left.place,
        0 if left is None else left.seq,
    )


def _is_same_line(place: Any, other: Any) -> bool:
    """Made in one go: between two lines the program may have written into it."""
    return place is other or (place.code is other.code and place.lineno == other.lineno)


def _needs_no_read(reason: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    if reason == "repeat_interleave":
        repeats = args[1] if len(args) > 1 else kwargs.get("repeats", args[0] if len(args) == 1 else None)
        return not isinstance(repeats, _Tensor) or kwargs.get("output_size") is not None
    if reason == "multinomial":
        count = args[1] if len(args) > 1 else kwargs.get("num_samples")
        replacement = args[2] if len(args) > 2 else kwargs.get("replacement", False)
        return bool(replacement) and count != 1
    return False


def _content(tensor: Any, birth: Any) -> object:
    """Equal for two copies of the same bytes: same storage, same window, nothing written since."""
    if birth is None or birth.action == "batched":
        return None
    try:
        storage = tensor.untyped_storage()._cdata
        return (birth.seq, storage, tensor.storage_offset(), tensor.numel(), tensor._version)
    except (RuntimeError, NotImplementedError):
        return None
