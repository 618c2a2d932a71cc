"""Whatever the nesting: the same structure, all tensors moved, shared objects shared, nothing changed."""

import dataclasses
from collections import OrderedDict, deque, namedtuple
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from samedevice import to_device  # noqa: E402

pytestmark = pytest.mark.torch

Pair = namedtuple("Pair", "x y")


@dataclasses.dataclass(frozen=True)
class Box:
    inside: Any
    label: str = "box"


#: few tensors, so that one is often there twice
TENSORS = [torch.zeros(n) for n in range(3)]

leaves = (
    st.sampled_from(TENSORS) | st.integers() | st.text(max_size=3) | st.none() | st.floats(allow_nan=False)
)
keys = st.text(max_size=3) | st.integers() | st.tuples(st.integers(), st.booleans())
nestings = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.lists(inner, max_size=4).map(lambda items: deque(items, maxlen=5))
        | st.dictionaries(keys, inner, max_size=4)
        | st.dictionaries(keys, inner, max_size=4).map(OrderedDict)
        | st.tuples(inner, inner).map(lambda pair: Pair(*pair))
        | inner.map(Box)
        | inner.map(lambda item: [item, item])
    ),
    max_leaves=12,
)


def shape(value: Any, seen: dict[int, int]) -> Any:
    """The structure with tensors as the number of their first appearance."""
    if isinstance(value, torch.Tensor):
        return ("tensor", tuple(value.shape), seen.setdefault(id(value), len(seen)))
    if isinstance(value, dict):
        return (type(value), [(key, shape(item, seen)) for key, item in value.items()])
    if isinstance(value, (list, tuple, deque)):
        number = seen.setdefault(id(value), len(seen)) if isinstance(value, list) else None
        return (type(value), number, [shape(item, seen) for item in value])
    if isinstance(value, Box):
        return (Box, value.label, shape(value.inside, seen))
    return value


def tensors(value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for item in value.values() for t in tensors(item)]
    if isinstance(value, (list, tuple, deque)):
        return [t for item in value for t in tensors(item)]
    return tensors(value.inside) if isinstance(value, Box) else []


@settings(max_examples=200, deadline=None)
@given(nestings)
def test_a_moved_nesting_is_the_same_nesting_elsewhere(data: Any) -> None:
    before = shape(data, {})

    moved = to_device(data, "meta")

    assert shape(moved, {}) == before == shape(data, {})
    assert all(tensor.is_meta for tensor in tensors(moved))
    assert not any(tensor.is_meta for tensor in tensors(data))
    assert shape(to_device(data, "cpu"), {}) == before
