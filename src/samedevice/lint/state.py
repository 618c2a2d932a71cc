"""The mutable part of the abstract machine: a trail that undoes writes, and the join of two worlds."""

from typing import Any

from samedevice.lint.devices import Dev, same, symbol
from samedevice.lint.values import (
    NO_TAGS,
    REST,
    UNKNOWN,
    Alts,
    Array,
    Const,
    Device,
    Dict,
    Func,
    Instance,
    Num,
    Param,
    Seq,
    Tags,
    Tensor,
    Unknown,
    Value,
)

MISSING = object()
Cells = dict[Any, Any]
Changes = dict[tuple[int, Any], tuple[Cells, Any, Any]]


class Trail:
    """Every write to locals, attributes and containers goes through here."""

    __slots__ = ("log",)

    def __init__(self) -> None:
        self.log: list[tuple[Cells, Any, Any]] = []

    def write(self, cells: Cells, key: Any, value: Any) -> None:
        """`cells[key] = value`, remembered."""
        self.log.append((cells, key, cells.get(key, MISSING)))
        cells[key] = value

    def erase(self, cells: Cells, key: Any) -> None:
        """`del cells[key]`, remembered."""
        if key in cells:
            self.log.append((cells, key, cells[key]))
            del cells[key]

    def mark(self) -> int:
        """A point to come back to."""
        return len(self.log)

    def changes(self, mark: int) -> Changes:
        """What was written since `mark`: by cell the value now, and the value before."""
        found: Changes = {}
        for cells, key, old in self.log[mark:]:
            place = (id(cells), key)
            if place not in found:
                found[place] = (cells, cells.get(key, MISSING), old)
        return found

    def rewind(self, mark: int) -> None:
        """Undo all writes since `mark`."""
        log = self.log
        while len(log) > mark:
            cells, key, old = log.pop()
            if old is MISSING:
                cells.pop(key, None)
            else:
                cells[key] = old

    def merge(self, one: Changes, other: Changes, exact: bool) -> None:
        """The world after a branch, from what each side changed of the present one."""
        branching = object() if exact else None
        for place in one.keys() | other.keys():
            cells, a, before = one.get(place) or (None, MISSING, MISSING)
            other_cells, b, other_before = other.get(place) or (None, MISSING, MISSING)
            if cells is None:
                cells, a = other_cells, other_before
            if other_cells is None:
                b = before
            assert cells is not None
            key = place[1]
            if a is b:
                joined = a
            elif a is MISSING or b is MISSING:
                joined = b if a is MISSING else a
            else:
                joined = join_cells(key, a, b, exact, branching)
            if joined is MISSING:
                self.erase(cells, key)
            else:
                self.write(cells, key, joined)


def join_cells(key: Any, a: Any, b: Any, exact: bool, branching: object = None) -> Any:
    """The join of two cell contents, which need not be values for the analysis's own keys."""
    if isinstance(a, Value) and isinstance(b, Value):
        return join(a, b, exact, branching)
    if isinstance(a, tuple) and isinstance(b, tuple):
        if key == "items":
            if len(a) == len(b):
                return tuple(join(x, y, exact) for x, y in zip(a, b, strict=True))
            longer = a if len(a) > len(b) else b
            shorter = b if len(a) > len(b) else a
            return (
                tuple(join(x, y, exact) for x, y in zip(shorter, longer, strict=False))
                + longer[len(shorter) :]
            )
        return a if len(a) >= len(b) else b
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, dict) and isinstance(b, dict):
        return {**a, **b}
    return a


def options(value: Value) -> tuple[Value, ...]:
    """The alternatives of a value."""
    return value.options if isinstance(value, Alts) else (value,)


def tagged(value: Value) -> list[tuple[Value, Tags]]:
    """The alternatives of a value with the branches under which they hold."""
    if isinstance(value, Alts):
        return list(zip(value.options, value.tags, strict=True))
    return [(value, NO_TAGS)]


def conflict(a: Tags, b: Tags) -> bool:
    """Whether two alternatives exclude each other."""
    if not a or not b:
        return False
    sides = dict(a)
    return any(sides.get(group, side) != side for group, side in b)


def compatible(value: Value, tags: Tags) -> Value:
    """The alternatives of `value` that can hold together with `tags`."""
    if not tags or not isinstance(value, Alts):
        return value
    kept = [(o, t) for o, t in tagged(value) if not conflict(t, tags)]
    return assemble(kept) if kept and len(kept) < len(value.options) else value


def assemble(found: list[tuple[Value, Tags]], exact: bool = True) -> Value:
    """One value of some alternatives; those that are alike become one."""
    merged: list[tuple[Value, Tags]] = []
    for value, tags in found:
        for index, (known, known_tags) in enumerate(merged):
            if alike(value, known):
                merged[index] = (join_pair(known, value, exact), known_tags & tags)
                break
        else:
            merged.append((value, tags))
    if len(merged) == 1:
        return merged[0][0]
    if exact and len(merged) <= 5:
        return Alts(tuple(v for v, _ in merged), tuple(t for _, t in merged))
    result = merged[0][0]
    for value, _ in merged[1:]:
        result = join_pair(result, value, exact=False)
    return result


def join(a: Value, b: Value, exact: bool, branching: object = None) -> Value:
    """One of two values; `exact` when data decides, so that both really occur.

    Values joined at the same `branching` are known to go together.
    """
    if a is b:
        return a
    if not exact and not isinstance(a, Alts) and not isinstance(b, Alts):
        return join_pair(a, b, exact)
    if not isinstance(a, Alts) and not isinstance(b, Alts):
        joined = join_pair(a, b, exact)
        if isinstance(joined, Alts) and branching is not None:
            return Alts(joined.options, (frozenset({(branching, 0)}), frozenset({(branching, 1)})))
        return joined
    if branching is None:
        return assemble([*tagged(a), *tagged(b)], exact)
    one, two = frozenset({(branching, 0)}), frozenset({(branching, 1)})
    return assemble([*((v, t | one) for v, t in tagged(a)), *((v, t | two) for v, t in tagged(b))], exact)


def alike(a: Value, b: Value) -> bool:
    """Whether two alternatives can be one."""
    if equal(a, b):
        return True
    if isinstance(a, Tensor) and isinstance(b, Tensor) and a.dev is not None and b.dev is not None:
        return same(a.dev, b.dev) and a.held is b.held
    return (isinstance(a, Unknown) and isinstance(b, Unknown)) or same_shape(a, b)


def join_pair(a: Value, b: Value, exact: bool) -> Value:
    if equal(a, b):
        return a
    if isinstance(a, Const) and isinstance(b, Const) and a.value is not None and b.value is not None:
        if isinstance(a.value, str) and isinstance(b.value, str):
            return join_devices(a, b) or Num()
        return Num()
    if isinstance(a, Device | Const) and isinstance(b, Device | Const):
        device = join_devices(a, b)
        if device is not None:
            return device
    if isinstance(a, Num | Const) and isinstance(b, Num | Const):
        known = [v for v in (a, b) if not (isinstance(v, Const) and v.value is None)]
        return Num() if len(known) == 2 else Alts((a, b))
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return join_tensors(a, b, exact)
    if isinstance(a, Unknown) and isinstance(b, Unknown):
        return Unknown()
    if (
        isinstance(a, Instance)
        and isinstance(b, Instance)
        and a.builtin == b.builtin == "torchvision.datasets"
    ):
        return a
    if same_shape(a, b):
        assert isinstance(a, Seq) and isinstance(b, Seq)
        return Seq("tuple", tuple(join(x, y, exact) for x, y in zip(a.items, b.items, strict=True)))
    if exact:
        return Alts((a, b))
    if isinstance(a, Const) and a.value is None:
        return Alts((a, b))
    if isinstance(b, Const) and b.value is None:
        return Alts((b, a))
    return Unknown()


def same_shape(a: Value, b: Value) -> bool:
    """Whether two values are tuples of as many known items, which can be joined item by item."""
    return (
        isinstance(a, Seq)
        and isinstance(b, Seq)
        and a.kind == b.kind == "tuple"
        and a.rest is None
        and b.rest is None
        and len(a.items) == len(b.items)
    )


def join_devices(a: Value, b: Value) -> Value | None:
    """A device that is one of two: a symbol, which stands for the accelerator."""
    one, two = device_of(a), device_of(b)
    if one is None or two is None:
        return None
    if same(one, two):
        return a
    if one.is_cpu or two.is_cpu:
        other = two if one.is_cpu else one
        chosen = a if one.is_cpu else b
        site = getattr(chosen, "site", None)
        if other.is_symbol:
            return Device(other, site)
        return Device(symbol(("choice", id(site) if site else other), str(other)), site)
    return Device(symbol(("choice", str(one), str(two)), f"{one} or {two}"), None)


def device_of(value: Value) -> Dev | None:
    """The device of a device-like value."""
    from samedevice.lint.devices import parse_device

    if isinstance(value, Device):
        return value.dev
    if isinstance(value, Const) and isinstance(value.value, str):
        return parse_device(value.value)
    return None


def join_tensors(a: Tensor, b: Tensor, exact: bool) -> Value:
    if a.dev is not None and b.dev is not None and same(a.dev, b.dev):
        result = (a if a.birth is not None else b).copy()
        result.rank = (
            a.rank if a.rank == b.rank else None if None in (a.rank, b.rank) or 0 in (a.rank, b.rank) else -1
        )
        return result
    if exact:
        return Alts((a, b))
    result = a.copy()
    result.dev = None
    result.rank = a.rank if a.rank == b.rank else None
    return result


def equal(a: Value, b: Value) -> bool:
    """Whether two values are worth one alternative."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, Const) and isinstance(b, Const):
        return a.value == b.value and type(a.value) is type(b.value)
    if isinstance(a, Num | Array):
        return True
    if isinstance(a, Unknown):
        return a is b
    if isinstance(a, Device) and isinstance(b, Device):
        return same(a.dev, b.dev)
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return (
            a.dev is not None
            and b.dev is not None
            and same(a.dev, b.dev)
            and a.rank == b.rank
            and a.held is b.held
        )
    if isinstance(a, Func) and isinstance(b, Func):
        return a.node is b.node and a.closure is b.closure
    return False


def element(value: Value) -> Value:
    """Any item of a container, UNKNOWN if none is known."""
    if isinstance(value, Seq):
        found: Value | None = value.rest
        for item in value.items:
            found = item if found is None else join(found, item, True)
        return found if found is not None else UNKNOWN
    if isinstance(value, Dict):
        found = None
        for item in value.cells.values():
            found = item if found is None else join(found, item, True)
        return found if found is not None else UNKNOWN
    return UNKNOWN


def leaves(value: Value, depth: int = 3) -> list[Tensor]:
    """The tensors inside a structure of lists, tuples and dicts."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, Param):
        return [value.tensor]
    if depth == 0:
        return []
    if isinstance(value, Alts):
        return [t for option in value.options for t in leaves(option, depth)]
    if isinstance(value, Seq):
        parts = [*value.items, *([value.rest] if value.rest is not None else [])]
        return [t for part in parts for t in leaves(part, depth - 1)]
    if isinstance(value, Dict):
        return [
            t for part in value.cells.values() if isinstance(part, Value) for t in leaves(part, depth - 1)
        ]
    return []


__all__ = ["REST", "Trail", "element", "equal", "join", "leaves", "options"]
