"""The inventory as a tree of lines, folded where all below is alike."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from samedevice.inventory.expect import Stray, odd_ones
from samedevice.inventory.record import Entry, Kind, Section

#: more branches than this are not listed when nearly all are alike
CROWD = 12
#: several dtypes or devices are named as long as they fit in this many characters
ROOM = 13


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the tree.

    Attributes:
        depth: how far down the tree.
        name: the last part of the path; "[0] … [11]" for a run of equal branches.
        what: "12 parameters, 2 buffers".
        stray: why the tensor is out of place, when it is.
        remarks: what it shares memory with.
        each: stands for one of several equal branches.
    """

    depth: int
    name: str
    what: str
    device: str = ""
    dtype: str = ""
    size: str = ""
    stray: Stray | None = None
    remarks: tuple[str, ...] = ()
    each: bool = False


@dataclass(slots=True, eq=False)
class _Node:
    name: str
    children: "dict[str, _Node]" = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)

    def all_entries(self) -> Iterator[Entry]:
        yield from self.entries
        for child in self.children.values():
            yield from child.all_entries()


def lines(section: Section) -> list[Line]:
    """The section's lines, from its own down."""
    root = _Node(section.name)
    for entry in section.entries:
        node = root
        for step in entry.steps[1:]:
            node = node.children.setdefault(step, _Node(step))
        node.entries.append(entry)
    found: list[Line] = []
    _tell(root, 0, odd_ones(section), found)
    first = found[0]
    found[0] = replace(first, name=f"{section.name} ({section.class_name})")
    return found


def _tell(node: _Node, depth: int, odd: dict[str, Stray], found: list[Line]) -> None:
    entries = list(node.all_entries())
    if not entries:
        found.append(Line(depth, node.name, "no tensors"))
        return
    if node.entries:
        found.append(_leaf(node, depth, entries, odd))
        return
    found.append(_folded(node.name, depth, entries, odd))
    # The top is opened even when all is alike, but not for the sake of a single branch.
    if _is_alike(entries, odd) and (depth or len(node.children) == 1):
        return
    children, others = _without_crowd(list(node.children.values()), odd)
    for run in _runs(children, odd):
        if len(run) == 1:
            _tell(run[0], depth + 1, odd, found)
            continue
        inside = [entry for child in run for entry in child.all_entries()]
        found.append(_folded(f"{run[0].name} … {run[-1].name}", depth + 1, inside, odd))
        below: list[Line] = []
        _tell(run[0], depth + 1, odd, below)
        found.extend(replace(line, each=True) for line in below[1:])
    if others:
        inside = [entry for child in others for entry in child.all_entries()]
        found.append(_folded(f"… {len(others)} others", depth + 1, inside, odd))


def _without_crowd(children: list[_Node], odd: dict[str, Stray]) -> tuple[list[_Node], list[_Node]]:
    """Where there are many branches and nearly all are alike: the few that differ, and the rest."""
    if len(children) <= CROWD:
        return children, []
    looks = [_crowd_look(child, odd) for child in children]
    (common, count), *_ = Counter(looks).most_common(1)
    if common is None or count < len(children) // 2:
        return children, []
    crowd = [child for child, look in zip(children, looks, strict=True) if look == common]
    return [child for child in children if child not in crowd], crowd


def _crowd_look(node: _Node, odd: dict[str, Stray]) -> tuple[object, ...] | None:
    entries = list(node.all_entries())
    if not entries or not _is_alike(entries, odd) or entries[0].tied or entries[0].shared:
        return None
    return _signature(_counting(entries)[0], odd)


def _leaf(node: _Node, depth: int, entries: list[Entry], odd: dict[str, Stray]) -> Line:
    """A tensor, with its gradient if it has one."""
    entry, *more = entries
    shape = "×".join(map(str, entry.shape)) or "scalar"
    what = f"{_kind(entry)} {shape}" + (" + gradient" if more else "")
    stray = next((odd[e.path] for e in entries if e.path in odd), None)
    nbytes = sum(e.nbytes for e in entries if not e.alias)
    return Line(depth, node.name, what, _several(Counter(e.device for e in entries)), short_dtype(entry.dtype),
                "" if entry.alias else size(nbytes), stray, _sharing(entry))  # fmt: skip


def _sharing(entry: Entry) -> tuple[str, ...]:
    told = []
    for how, others in (("tied with", entry.tied), ("shares memory with", entry.shared)):
        if others:
            told.append(f"{how} {', '.join(others[:2])}{', …' if len(others) > 2 else ''}")
    return tuple(told)


def _kind(entry: Entry) -> str:
    if entry.kind is Kind.ATTRIBUTE and entry.registered is False:
        return "plain attribute"
    if not entry.module_registered:
        return f"unregistered {entry.kind}"
    if entry.kind is Kind.BUFFER and entry.in_state_dict is False:
        return "unsaved buffer"
    return str(entry.kind)


def _folded(name: str, depth: int, entries: list[Entry], odd: dict[str, Stray]) -> Line:
    kinds = Counter(_kind(entry) for entry in entries)
    what = ", ".join(f"{n} {_plural(kind, n)}" for kind, n in kinds.most_common(2))
    if len(kinds) > 2 or len(what) > 28:
        what = f"{len(entries)} tensors"
    nbytes = sum(entry.nbytes for entry in entries if not entry.alias)
    devices = Counter(entry.device for entry in entries)
    dtypes = Counter(short_dtype(entry.dtype) for entry in entries)
    alike = _is_alike(entries, odd)
    first = _counting(entries)[0]
    stray = odd.get(first.path) if alike else None
    sharing = _sharing(first) if alike else ()
    return Line(depth, name, what, _several(devices), _several(dtypes), size(nbytes), stray, sharing)


def _plural(kind: str, count: int) -> str:
    if count == 1 or kind == "optimizer state":
        return kind
    return f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"


def _several(names: "Counter[str]") -> str:
    shown = [name for name, _ in names.most_common()]
    both = " ".join(shown)
    return both if len(both) <= ROOM else f"{shown[0]} +{len(shown) - 1}"


def _is_alike(entries: list[Entry], odd: dict[str, Stray]) -> bool:
    return len({_signature(entry, odd) for entry in _counting(entries)}) == 1


def _counting(entries: list[Entry]) -> list[Entry]:
    """Those that decide: an optimizer's step counters may be anywhere."""
    counting = [e for e in entries if e.kind is not Kind.OPTIMIZER_STATE or e.shape or e.follows]
    return counting or entries


def _signature(entry: Entry, odd: dict[str, Stray]) -> tuple[object, ...]:
    stray = odd.get(entry.path)
    group: object = entry.kind
    if entry.kind in (Kind.PARAMETER, Kind.BUFFER) or (
        entry.kind is Kind.GRADIENT and entry.follows == entry.device
    ):
        group = "registered"
    rule = stray.rule if stray else None
    device = entry.device
    if entry.kind is Kind.OPTIMIZER_STATE and not stray:
        device = "with its parameter"  # the step counter may stay on the CPU
    return (device, group, entry.module_registered, rule, bool(entry.tied or entry.shared))


def _runs(children: list[_Node], odd: dict[str, Stray]) -> Iterator[list[_Node]]:
    """Numbered neighbours with the same lines below them come as one."""
    run: list[_Node] = []
    looks: object = None
    for child in children:
        look = _look(child, odd) if child.name[1:-1].isdigit() else None
        if run and look is not None and look == looks:
            run.append(child)
            continue
        if run:
            yield run
        run, looks = [child], look
    if run:
        yield run


def _look(node: _Node, odd: dict[str, Stray]) -> object:
    """What its lines would say, but for its own name."""
    below: list[Line] = []
    _tell(replace(node, name=""), 1, odd, below)
    return [(replace(line, stray=None), line.stray.rule if line.stray else None) for line in below]


def size(nbytes: int) -> str:
    """Bytes as a person reads them: "340 B", "1.2 kB", "497 MB"."""
    amount, unit = float(nbytes), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"


_SHORT = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c"}


def short_dtype(dtype: str) -> str:
    """`float32` as "f32"."""
    letters = dtype.rstrip("0123456789")
    digits = dtype[len(letters) :]
    return f"{_SHORT[letters]}{digits}" if letters in _SHORT and digits else dtype
