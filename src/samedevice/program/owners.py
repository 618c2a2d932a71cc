"""Who holds what: a bounded walk over the objects that the live frames reach."""

import dataclasses
import sys
from collections import deque
from collections.abc import Iterable, Mapping
from functools import cache
from types import FrameType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from samedevice.model.scene import Holder
from samedevice.program.files import USER, kind_of
from samedevice.program.values import instance_dict, is_module, is_optimizer, is_tensor

MOST_OBJECTS: Final = 40_000
MOST_ITEMS: Final = 512
MOST_DEPTH: Final = 14

ATOMS = (str, bytes, bytearray, int, float, complex, bool, type(None), type, range, slice)


@dataclasses.dataclass(slots=True, eq=False)
class Seat:
    """An object that the program can reach.

    Attributes:
        path: how, in terms of its variables ("model.encoder.layers[0]").
        parent, key, link: the seat that holds it, under which name or index, and as what.
        depth: steps from the variable.
        frame: number of the frame whose variable leads here (0 is the outermost); -1 for a module-level
            variable.
    """

    value: Any
    path: str
    parent: "Seat | None"
    key: Any
    link: Holder
    depth: int
    frame: int

    @property
    def host(self) -> "Seat | None":
        """The nearest module or other instance around, past lists and dictionaries."""
        seat = self.parent
        while seat is not None and _is_container(seat.value):
            seat = seat.parent
        return seat

    @property
    def attribute(self) -> str | None:
        """The attribute of `host` under which it is found ("filters" for `bank.filters[2]`)."""
        seat: Seat | None = self
        while seat is not None and seat.parent is not None and _is_container(seat.parent.value):
            seat = seat.parent
        if seat is None or seat.parent is None or not isinstance(seat.key, str):
            return None
        return seat.key

    @property
    def owner(self) -> str | None:
        """The path in terms of classes: "Net.mask", "Net.filters[2]"."""
        host = self.host
        if host is None:
            return None
        return f"{type(host.value).__name__}{self.path[len(host.path) :]}"

    @property
    def holder(self) -> Holder:
        """What kind of place this is."""
        return self.link

    def chain(self) -> "list[Seat]":
        """From the variable to this seat."""
        seats: list[Seat] = [self]
        while seats[-1].parent is not None:
            seats.append(seats[-1].parent)
        return seats[::-1]


class Census:
    """All tensors, modules and optimizers that live frames reach, with how they are reached.

    Attributes:
        tensors: one seat for each place that holds a tensor; a tensor held twice has two.
        modules: by identity, the first seat found.
        registered: by identity, the module of which it is a registered submodule.
        loose: by identity of modules, the seats where something holds them without registering them.
        optimizers: seats of optimizers.
        objects: by identity, every other object visited.
    """

    def __init__(self) -> None:
        self.tensors: list[Seat] = []
        self.modules: dict[int, Seat] = {}
        self.registered: dict[int, Seat] = {}
        self.loose: dict[int, list[Seat]] = {}
        self.optimizers: list[Seat] = []
        self.objects: dict[int, Seat] = {}
        self._queue: deque[Seat] = deque()
        self._budget = MOST_OBJECTS

    @classmethod
    def of(cls, frames: Iterable[FrameType]) -> "Census":
        """The census of user frames, outermost first, and of the modules of user code."""
        census = cls()
        frames = list(frames)
        seen: set[int] = set()
        for number, frame in enumerate(frames):
            top_level = frame.f_locals is frame.f_globals or frame.f_code.co_name == "<module>"
            seen.add(id(frame.f_globals))
            census._add_names(frame.f_locals, Holder.GLOBAL if top_level else Holder.LOCAL, number)
        for frame in frames:
            census._add_names(frame.f_globals, Holder.GLOBAL, -1)
        for name, module in list(sys.modules.items()):
            space = getattr(module, "__dict__", None)
            file = getattr(module, "__file__", None)
            if isinstance(space, dict) and isinstance(file, str) and id(space) not in seen:
                if kind_of(file) != USER or name == "__main__":
                    continue
                seen.add(id(space))
                census._add_names(space, Holder.GLOBAL, -1)
        return census

    def add_unnamed(self, modules: Iterable[Any]) -> None:
        """Modules that no variable of the program holds, as one made and called in a single expression."""
        for module in modules:
            self._put(
                Seat(module, type(module).__name__, None, type(module).__name__, Holder.TEMPORARY, 0, -1)
            )
        self._run()

    def _add_names(self, names: Mapping[str, Any], link: Holder, frame: int) -> None:
        for name, value in list(names.items()):
            if name.startswith("__") or name in ("In", "Out", "_", "_i", "_ii", "_iii") or name == ".0":
                continue
            self._put(Seat(value, name, None, name, link, 0, frame))
        self._run()

    def _put(self, seat: Seat) -> None:
        value = seat.value
        if isinstance(value, ATOMS):
            return
        if is_tensor(value):
            self.tensors.append(seat)
            return
        if seat.parent is not None and seat.link is not Holder.MODULE and is_module(value):
            self.loose.setdefault(id(value), []).append(seat)
        if id(value) in self.objects or seat.depth > MOST_DEPTH or self._budget <= 0:
            return
        self._budget -= 1
        self.objects[id(value)] = seat
        self._queue.append(seat)

    def _run(self) -> None:
        while self._queue:
            self._open(self._queue.popleft())

    def _child(self, seat: Seat, value: Any, key: Any, path: str, link: Holder) -> None:
        self._put(Seat(value, path, seat, key, link, seat.depth + 1, seat.frame))

    def _open(self, seat: Seat) -> None:
        value, path = seat.value, seat.path
        if is_module(value):
            self._open_module(seat)
        elif is_optimizer(value):
            self._open_optimizer(seat)
        elif isinstance(value, Mapping):
            self._open_mapping(seat)
        elif isinstance(value, (list, tuple, deque)):
            fields = getattr(type(value), "_fields", None)
            for i, thing in enumerate(_first(value)):
                name = f"{path}.{fields[i]}" if fields else f"{path}[{i}]"
                self._child(seat, thing, i, name, Holder.CONTAINER)
        elif isinstance(value, (set, frozenset)):
            for thing in _first(value):
                self._child(seat, thing, None, f"{path}{{…}}", Holder.CONTAINER)
        elif isinstance(value, ModuleType):
            return
        elif isinstance(value, MethodType):
            self._child(seat, value.__self__, "__self__", f"{path}.__self__", Holder.ATTRIBUTE)
        elif isinstance(value, FunctionType):
            self._open_function(seat)
        else:
            self._open_instance(seat)

    def _open_module(self, seat: Seat) -> None:
        module, path = seat.value, seat.path
        self.modules[id(module)] = seat
        own = instance_dict(module)
        # DataParallel's replicas keep their parameters as plain attributes.
        replicated = own.get("_former_parameters", {}) if own.get("_is_replica") else {}
        parameters = {**own.get("_parameters", {}), **replicated}
        for tensors, link in ((parameters, Holder.PARAMETER), (own.get("_buffers", {}), Holder.BUFFER)):
            for name, tensor in tensors.items():
                self._child(seat, tensor, name, f"{path}.{name}", link)
        numbered = type(module).__name__ in ("Sequential", "ModuleList")
        for name, child in own.get("_modules", {}).items():
            if child is not None:
                self.registered.setdefault(id(child), seat)
                shown = f"{path}[{name}]" if numbered and name.isdigit() else f"{path}.{name}"
                self._child(seat, child, name, shown, Holder.MODULE)
        for name, thing in own.items():
            if name not in _module_internals() and name not in own.get("_former_parameters", {}):
                self._child(seat, thing, name, f"{path}.{name}", Holder.ATTRIBUTE)

    def _open_optimizer(self, seat: Seat) -> None:
        self.optimizers.append(seat)
        own = instance_dict(seat.value)
        for number, state in enumerate(list(own.get("state", {}).values())[:MOST_ITEMS]):
            if isinstance(state, Mapping):
                for name, thing in state.items():
                    path = f"{seat.path}.state[…][{name!r}]"
                    if is_tensor(thing):
                        key = (number, name)
                        self.tensors.append(
                            Seat(thing, path, seat, key, Holder.OPTIMIZER_STATE, seat.depth + 1, seat.frame)
                        )

    def _open_mapping(self, seat: Seat) -> None:
        mapping = seat.value
        data = mapping if isinstance(mapping, dict) else instance_dict(mapping).get("data")
        if not isinstance(data, dict):
            self._open_instance(seat)
            return
        for key in list(_first(dict.keys(data))):
            thing = dict.__getitem__(data, key)
            shown = repr(key) if isinstance(key, (str, int)) else "…"
            self._child(seat, thing, key, f"{seat.path}[{shown}]", Holder.CONTAINER)

    def _open_function(self, seat: Seat) -> None:
        function = seat.value
        if kind_of(function.__code__.co_filename) != USER:
            return
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
            try:
                self._child(seat, cell.cell_contents, name, f"{seat.path}.{name}", Holder.LOCAL)
            except ValueError:
                continue

    def _open_instance(self, seat: Seat) -> None:
        value, path = seat.value, seat.path
        for name, thing in list(instance_dict(value).items())[:MOST_ITEMS]:
            if not name.startswith("__"):
                self._child(seat, thing, name, f"{path}.{name}", Holder.ATTRIBUTE)
        for base in type(value).__mro__:
            slots = base.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                member = base.__dict__.get(name)
                if member is not None and not name.startswith("__"):
                    try:
                        self._child(seat, member.__get__(value), name, f"{path}.{name}", Holder.ATTRIBUTE)
                    except (AttributeError, TypeError):
                        continue


def _is_container(value: Any) -> bool:
    return isinstance(value, (Mapping, list, tuple, deque, set, frozenset)) and not is_module(value)


def _first(things: Iterable[Any]) -> Iterable[Any]:
    for number, thing in enumerate(things):
        if number >= MOST_ITEMS:
            return
        yield thing


@cache
def _module_internals() -> frozenset[str]:
    """What `nn.Module` itself keeps in an instance's `__dict__`."""
    torch = sys.modules["torch"]
    return frozenset(instance_dict(torch.nn.Module()))


def is_program_class(kind: type) -> bool:
    """Whether the class is written in user code."""
    module = sys.modules.get(kind.__module__)
    file = getattr(module, "__file__", None)
    return kind.__module__ == "__main__" or (isinstance(file, str) and kind_of(file) == USER)
