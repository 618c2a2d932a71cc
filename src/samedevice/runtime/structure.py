"""Looking into Python objects and copying them shell by shell, without running their code.

A copy is made by the `__new__` of the built-in type at the root of the class and by setting
attributes past `__setattr__`, so frozen, slotted and `init=False` fields come along and no
`__init__` or `__post_init__` runs a second time.
"""

import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator
from typing import Any, Final
from weakref import WeakKeyDictionary

import torch

_HEAP_TYPE = 1 << 9

#: built-in roots whose whole content we know how to carry over
KNOWN_ROOTS: tuple[type, ...] = (
    object,
    dict,
    OrderedDict,
    defaultdict,
    list,
    tuple,
    set,
    frozenset,
    deque,
    types.SimpleNamespace,
)

_DICT_VIEWS: Final[tuple[type, ...]] = (type({}.keys()), type({}.values()), type({}.items()))

#: what a search for tensors does not look into
_CLOSED: Final[tuple[type, ...]] = (
    str,
    bytes,
    int,
    float,
    complex,
    type,
    type(None),
    types.ModuleType,
    types.FunctionType,
    torch.nn.Module,
    torch.optim.Optimizer,
)

_LEAVES: Final = frozenset({str, bytes, int, float, complex, bool, type(None)})

#: how many objects a search for tensors looks at before it gives up
SEARCH_LIMIT = 20_000


def root_of(cls: type) -> type:
    """The nearest class of the inheritance chain that is built in, not written in Python."""
    return next(base for base in cls.__mro__ if not base.__flags__ & _HEAP_TYPE)


_SLOTS: WeakKeyDictionary[type, tuple[Any, ...]] = WeakKeyDictionary()


def slots_of(cls: type) -> tuple[Any, ...]:
    """The slot descriptors of the Python classes of the chain."""
    if cls not in _SLOTS:
        _SLOTS[cls] = _find_slots(cls)
    return _SLOTS[cls]


def _find_slots(cls: type) -> tuple[Any, ...]:
    return tuple(
        descriptor
        for base in cls.__mro__
        if base.__flags__ & _HEAP_TYPE
        for descriptor in vars(base).values()
        if type(descriptor) is types.MemberDescriptorType
    )


def attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """Name and value of what the object itself holds, in `__dict__` and in slots."""
    own = getattr(value, "__dict__", None)
    if type(own) is dict:
        yield from list(own.items())
    for descriptor in slots_of(type(value)):
        try:
            yield descriptor.__name__, descriptor.__get__(value)
        except AttributeError:
            continue  # the slot is empty


def set_attribute(value: Any, name: str, attribute: Any) -> None:
    """Set what `attributes` showed, past any `__setattr__` of the class."""
    own = getattr(value, "__dict__", None)
    if type(own) is dict and name in own:
        own[name] = attribute
        return
    for descriptor in slots_of(type(value)):
        if descriptor.__name__ == name:
            descriptor.__set__(value, attribute)
            return
    if type(own) is dict:
        own[name] = attribute


def blank(value: Any) -> Any:
    """A new object of the same class that holds nothing yet."""
    cls = type(value)
    root: Any = root_of(cls)
    new = root.__new__(cls)
    if isinstance(value, defaultdict):
        new.default_factory = value.default_factory
    return new


def has_own_copy(cls: type) -> bool:
    """A Python class of the chain says how it wants to be copied."""
    return any("__copy__" in vars(base) for base in cls.__mro__ if base.__flags__ & _HEAP_TYPE)


def is_namedtuple(cls: type) -> bool:
    """Made by `namedtuple` or `NamedTuple`, or derived from one."""
    return issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def has_to(cls: type) -> bool:
    """Instances can be asked to move themselves."""
    return callable(getattr(cls, "to", None))


def inner_tensors(value: Any, limit: int = SEARCH_LIMIT) -> Iterator[Any]:
    """The tensors that `value` holds, in containers and attributes at any depth.

    Does not look into modules, optimizers, functions, classes; looks at `limit` objects at most.
    """
    stack: list[Any] = [value]
    seen: set[int] = set()
    while stack and len(seen) < limit:
        item = stack.pop()
        if isinstance(item, torch.Tensor):
            if id(item) not in seen:
                seen.add(id(item))
                yield item
        elif not isinstance(item, _CLOSED) and id(item) not in seen:
            seen.add(id(item))
            stack.extend(part for part in _parts(item) if type(part) not in _LEAVES)


def _parts(value: Any) -> Iterator[Any]:
    """What a container or an object holds directly."""
    content: Any = value
    if isinstance(value, (dict, types.MappingProxyType)):
        yield from content.keys()
        yield from content.values()
    elif isinstance(value, (list, tuple, set, frozenset, deque, *_DICT_VIEWS)):
        yield from content
    yield from (attribute for _, attribute in attributes(value))


def holds_tensors(value: Any) -> bool:
    """`value` has a tensor somewhere inside."""
    return next(inner_tensors(value), None) is not None
