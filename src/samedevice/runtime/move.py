"""`to_device`: a copy of any nesting of data with its tensors on another device."""

import copy
import enum
import functools
import io
import numbers
import types
from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Any, Final, Literal, TypeVar

import torch
from torch.nn.utils.rnn import PackedSequence

from samedevice.runtime.structure import (
    KNOWN_ROOTS,
    attributes,
    blank,
    has_own_copy,
    has_to,
    holds_tensors,
    is_namedtuple,
    root_of,
    set_attribute,
)

T = TypeVar("T")
NonBlocking = bool | Literal["auto"]

_Tensor: Final = torch.Tensor

#: copied as they are, without a question
_ATOMS: Final = frozenset({str, int, float, bool, type(None), bytes, complex})

#: bases of what holds no tensors, or none that data moves with
_OPAQUE: Final[tuple[type, ...]] = (
    str,
    bytes,
    bytearray,
    memoryview,
    numbers.Number,
    enum.Enum,
    type,
    range,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.ModuleType,
    io.IOBase,
    torch.device,
    torch.dtype,
    torch.Size,
    torch.Generator,
)

#: where an asynchronous copy out of pinned memory is ordered with the work that follows it.
#: Not on MPS: there the copy has been seen to race (pytorch/pytorch#83015).
_ASYNCHRONOUS: Final = frozenset({"cuda", "xpu", "hpu", "npu"})


class CannotMove(TypeError):
    """Something in the data cannot be rebuilt on another device.

    Attributes:
        path: where it is, written as an expression ("data['image'][0].mask").
    """

    def __init__(self, why: str, path: str = "data") -> None:
        super().__init__(f"`{path}` {why}")
        self.why = why
        self.path = path


def to_device(data: T, device: Any, non_blocking: NonBlocking = "auto") -> T:
    """A copy of `data` whose tensors are on `device`; nothing is changed in place.

    Dicts, lists, tuples, sets, their subclasses, dataclasses, attrs and pydantic models and plain
    objects are rebuilt with type, order and attributes kept; one object met twice is one object in
    the result, and cycles stay cycles. Tensors already there are passed on, not copied. What has
    its own `.to` is copied and asked to move; strings, numbers, arrays and functions stay as they are.

    Args:
        data: any nesting.
        device: anything that names a device.
        non_blocking: "auto" does not wait for a copy out of pinned memory and waits for any other,
            so that no value can be read before it has arrived.

    Raises:
        CannotMove: something with tensors inside cannot be rebuilt; the text names its path.
    """
    target = torch.empty(0, device=device).device
    mover = Mover(target, non_blocking)
    try:
        moved: T = mover.move(data)
        return moved
    except CannotMove as error:
        raise CannotMove(error.why, mover.path()) from error.__cause__
    except RecursionError:
        raise CannotMove("is nested too deeply to be copied") from None
    except Exception as error:
        error.add_note(f"samedevice: while moving `{mover.path()}` to {target}")
        raise


class Mover:
    """One call of `to_device`: where to, and what has been copied so far."""

    def __init__(self, device: torch.device, non_blocking: NonBlocking) -> None:
        self.device = device
        self.overlaps = device.type in _ASYNCHRONOUS
        self.automatic = non_blocking == "auto"
        self.non_blocking = bool(non_blocking) and not self.automatic
        self.memo: dict[int, Any] = {}
        #: what `memo` knows by its `id` and nobody else need hold
        self.alive: list[Any] = []
        self._trail: list[str] = []

    def path(self) -> str:
        """Where the error that is passing through came from."""
        return "data" + "".join(reversed(self._trail))

    def move(self, value: Any) -> Any:
        """The counterpart of `value` on the target device."""
        cls = type(value)
        if cls is _Tensor:
            return value if value.device == self.device else self.tensor(value)
        if cls in _ATOMS:
            return value
        key = id(value)
        if key in self.memo:
            return self.memo[key]
        plan = _PLANS.get(cls)
        if plan is None:
            plan = _PLANS[cls] = plan_for(cls)
        return getattr(self, plan)(value)

    def tensor(self, value: Any) -> Any:
        """Copy one tensor, once."""
        memo, key = self.memo, id(value)
        if key in memo:
            return memo[key]
        if self.non_blocking or (self.overlaps and self.automatic and _is_pinned(value)):
            new = value.to(self.device, non_blocking=True)
        else:
            new = value.to(self.device)
        memo[key] = new
        return new

    # -- containers ----------------------------------------------------------------------------
    # The loops repeat what `move` does for tensors and atoms: a call for each leaf would
    # cost as much as the rest. The handler around a loop knows the item that failed.

    def plain_dict(self, value: Any) -> Any:
        """An exact `dict`."""
        new: dict[Any, Any] = {}
        self.memo[id(value)] = new
        device, key = self.device, None
        try:
            for key, item in value.items():
                cls = type(item)
                name = key if type(key) is str else self.move(key)
                if cls is _Tensor:
                    new[name] = item if item.device == device else self.tensor(item)
                elif cls in _ATOMS:
                    new[name] = item
                else:
                    new[name] = self.move(item)
        except BaseException:
            self._trail.append(f"[{key!r}]")
            raise
        return new

    def plain_list(self, value: Any) -> Any:
        """An exact `list`."""
        new: list[Any] = []
        self.memo[id(value)] = new
        self._items(value, new)
        return new

    def plain_tuple(self, value: Any) -> Any:
        """An exact `tuple`; one that contains itself through a list is met again below itself."""
        items: list[Any] = []
        self._items(value, items)
        return self.memo.setdefault(id(value), tuple(items))

    def _items(self, value: Any, new: list[Any]) -> None:
        append, device = new.append, self.device
        try:
            for item in value:
                cls = type(item)
                if cls is _Tensor:
                    append(item if item.device == device else self.tensor(item))
                elif cls in _ATOMS:
                    append(item)
                else:
                    append(self.move(item))
        except BaseException:
            self._trail.append(f"[{len(new)}]")
            raise

    def _fill_dict(self, value: Any, new: Any, base: Any) -> None:
        key, set_item = None, base.__setitem__
        try:
            for key, item in base.items(value):
                set_item(new, key if type(key) is str else self.move(key), self.move(item))
        except BaseException:
            self._trail.append(f"[{key!r}]")
            raise

    def container(self, value: Any) -> Any:
        """A subclass of a built-in container: content past its own methods, then attributes."""
        cls = type(value)
        if isinstance(value, tuple):
            items: list[Any] = []
            if is_namedtuple(cls):
                for name, item in zip(cls._fields, value, strict=False):
                    items.append(self._attribute(name, item))
            else:
                self._items(value, items)
            if id(value) in self.memo:
                return self.memo[id(value)]
            # A C-level named tuple (torch.return_types.max) refuses tuple's own __new__.
            new: Any = tuple.__new__(cls, items) if root_of(cls) is tuple else cls(items)
            self.memo[id(value)] = new
        elif isinstance(value, frozenset):
            items = []
            self._items(value, items)
            new = self.memo[id(value)] = frozenset.__new__(cls, items)
        else:
            new = self.memo[id(value)] = self._mutable(value, blank(value))
        for name, item in attributes(value):
            set_attribute(new, name, self._attribute(name, item))
        return new

    def _mutable(self, value: Any, new: Any) -> Any:
        self.memo[id(value)] = new
        if isinstance(value, dict):
            self._fill_dict(value, new, OrderedDict if isinstance(value, OrderedDict) else dict)
            return new
        items: list[Any] = []
        self._items(value, items)
        if isinstance(value, deque):
            deque.__init__(new, items, value.maxlen)
        elif isinstance(value, set):
            set.update(new, items)
        else:
            list.extend(new, items)
        return new

    def _attribute(self, name: str, value: Any) -> Any:
        try:
            return self.move(value)
        except BaseException:
            self._trail.append(f".{name}")
            raise

    def mapping_proxy(self, value: Any) -> Any:
        """A read-only view of a dict."""
        content = dict(value)
        self.alive.append(content)
        return self.memo.setdefault(id(value), types.MappingProxyType(self.plain_dict(content)))

    def partial(self, value: Any) -> Any:
        """A `functools.partial` keeps its function and moves the arguments it holds."""
        if not holds_tensors([value.args, value.keywords]):
            return value
        arguments = [self.move(item) for item in value.args]
        return type(value)(value.func, *arguments, **self.plain_dict(value.keywords))

    # -- objects -------------------------------------------------------------------------------

    def plain_object(self, value: Any) -> Any:
        """An instance of a Python class: as it is unless it holds tensors, else a copy."""
        if not holds_tensors(value):
            return value
        new = self._shell(value)
        for name, item in list(attributes(new if has_own_copy(type(value)) else value)):
            set_attribute(new, name, self._attribute(name, item))
        return new

    def _shell(self, value: Any) -> Any:
        if has_own_copy(type(value)):
            new = copy.copy(value)
            self.alive.append(new)
        else:
            new = blank(value)
        self.memo[id(value)] = new
        return new

    def self_moving(self, value: Any) -> Any:
        """Something with its own `.to`: a copy of it is asked, so the original cannot change."""
        holds = holds_tensors(value)
        shell = Sharer().detached(value)
        try:
            try:
                new = shell.to(self.device, non_blocking=self.non_blocking)
            except TypeError:
                new = shell.to(self.device)
        except Exception as error:
            if not holds:
                return value  # `.to` means something else here: a unit, a time zone
            raise CannotMove(
                f"is a `{type(value).__qualname__}` whose own `.to` failed: {type(error).__name__}: {error}"
            ) from error
        # A `.to` that forgets to return itself has moved the copy in place.
        self.memo[id(value)] = shell if new is None else new
        return self.memo[id(value)]

    def functional(self, value: Any) -> Any:
        """Something whose `.to` is known to return a moved copy."""
        new = self.memo[id(value)] = value.to(self.device)
        return new

    def storage(self, value: Any) -> Any:
        """A bare storage."""
        new = self.memo[id(value)] = value.to(device=self.device, non_blocking=self.non_blocking)
        return new

    def packed_sequence(self, value: Any) -> Any:
        """A PackedSequence: its batch sizes have to stay on the CPU."""
        moved = (
            self._attribute("data", value.data),
            value.batch_sizes,
            self._attribute("sorted_indices", value.sorted_indices),
            self._attribute("unsorted_indices", value.unsorted_indices),
        )
        new = self.memo[id(value)] = tuple.__new__(type(value), moved)
        return new

    def graph_data(self, value: Any) -> Any:
        """A torch_geometric Data: its own copy, then its own walk with our move."""
        new = self.memo[id(value)] = copy.copy(value)

        def move(item: Any) -> Any:
            self.alive.append(item)
            return self.move(item)

        return new.apply(move)

    def refused(self, value: Any) -> Any:
        """What no copy can be made of."""
        why = _refusal_for(type(value)) or "cannot be copied (`{name}`)"
        raise CannotMove(why.format(name=type(value).__qualname__))

    def unchanged(self, value: Any) -> Any:
        """What stays as it is."""
        return value

    def foreign(self, value: Any) -> Any:
        """A type written in C that we know nothing of: nothing to do unless tensors show."""
        if holds_tensors(value):
            raise CannotMove(
                f"is a `{type(value).__qualname__}`, which cannot be rebuilt with its tensors moved"
            )
        dtype = getattr(value, "dtype", None)
        if getattr(dtype, "hasobject", False) and holds_tensors(list(value.flat)):
            raise CannotMove("is an object array with tensors inside; make it a list")
        return value


def _is_pinned(tensor: Any) -> bool:
    try:
        return bool(tensor.is_pinned())
    except (RuntimeError, NotImplementedError):
        return False  # layouts that cannot say


class Sharer(Mover):
    """Copies the same shells but shares tensors and all that cannot be copied."""

    def __init__(self) -> None:
        super().__init__(torch.device("cpu"), False)

    def detached(self, value: Any) -> Any:
        """A copy of something with its own `.to` that shares nothing which `.to` may write into."""
        cls = type(value)
        if issubclass(cls, (dict, list, tuple, set, frozenset, deque)):
            return self.container(value)
        if root_of(cls) not in KNOWN_ROOTS:
            return copy.copy(value)
        new = self._shell(value)
        for name, item in list(attributes(new if has_own_copy(cls) else value)):
            set_attribute(new, name, self.move(item))
        return new

    def tensor(self, value: Any) -> Any:
        """Tensors are shared."""
        return value

    self_moving = detached
    functional = storage = packed_sequence = partial = foreign = refused = tensor

    def graph_data(self, value: Any) -> Any:
        """Its own copy is what is wanted."""
        return copy.copy(value)


#: classes by the name they have where they are defined: their packages need not be installed
_BY_NAME: Final[dict[str, str]] = {
    "torch_geometric.data.data.BaseData": "graph_data",
    "tensordict.base.TensorDictBase": "functional",
    # Their `.to` works in place and copies a tensor that is there twice twice.
    "transformers.tokenization_utils_base.BatchEncoding": "plain_object",
    "transformers.feature_extraction_utils.BatchFeature": "plain_object",
}


def plan_for(cls: type) -> str:
    """The method of `Mover` that moves instances of `cls`; asked once for each class."""
    if issubclass(cls, torch.Tensor):
        return "tensor"
    if issubclass(cls, PackedSequence):
        return "packed_sequence"
    if issubclass(cls, _OPAQUE):
        return "unchanged"
    for base in cls.__mro__:
        known = _BY_NAME.get(f"{base.__module__}.{base.__qualname__}")
        if known is not None:
            return known
    if hasattr(cls, "_is_tensorclass") and has_to(cls):
        return "functional"
    if _refusal_for(cls) is not None:
        return "refused"
    if cls in (dict, list, tuple):
        return f"plain_{cls.__name__}"
    if cls is types.MappingProxyType:
        return "mapping_proxy"
    if issubclass(cls, functools.partial):
        return "partial"
    if issubclass(cls, (torch.UntypedStorage, torch.storage.TypedStorage)):
        return "storage"
    if root_of(cls).__module__.partition(".")[0] == "numpy":
        return "foreign"
    if has_to(cls):
        return "self_moving"
    if issubclass(cls, (dict, list, tuple, set, frozenset, deque)):
        return "container"
    return "plain_object" if root_of(cls) in KNOWN_ROOTS else "foreign"


def _refusal_for(cls: type) -> str | None:
    """Why instances cannot be copied to another device, when that is so."""
    if issubclass(cls, torch.nn.Module):
        return "is a module (`{name}`): `module.to(device)` moves it, in place; `to_device` moves data"
    if issubclass(cls, (torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler)):
        return "is a `{name}`: its state follows the parameters it was made for"
    if issubclass(cls, torch.utils.data.DataLoader):
        return "is a DataLoader: move each batch it gives, or wrap it in `samedevice.Prefetcher`"
    if issubclass(cls, (types.GeneratorType, types.CoroutineType)) or (
        issubclass(cls, Iterator) and not issubclass(cls, io.IOBase)
    ):
        return "is an iterator (`{name}`), which cannot be copied; make it a list"
    return None


_PLANS: dict[type, str] = {}
