"""Finds every tensor of models, optimizers, losses, metrics, loaders and plain data."""

import functools
import sys
import types
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import torch

from samedevice.inventory.record import Entry, Kind, Role, Section
from samedevice.runtime.structure import attributes

#: how many objects one section looks at
LIMIT: Final = 100_000
#: how deep plain objects are followed
DEPTH: Final = 12

_INTERNAL: Final = frozenset(vars(torch.nn.Module())) | {
    "_compiled_call_impl",
    "_hf_hook",  # accelerate's: holds what it offloads, on purpose
    "_old_forward",
}
_METRIC_INTERNAL: Final = frozenset({"_defaults", "_cache", "_persistent", "_reductions"})
_LEAVES: Final = (str, bytes, int, float, complex, type(None), torch.device, torch.dtype, torch.Size)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the walk is."""

    steps: tuple[str, ...]
    kind: Kind = Kind.ITEM
    registered: bool | None = None
    in_state_dict: bool | None = None
    follows: str | None = None
    owner: str = ""
    module_registered: bool = True
    depth: int = 0

    def down(self, step: str, kind: Kind, **changes: Any) -> "Place":
        """One step further."""
        return replace(self, steps=(*self.steps, step), kind=kind, depth=self.depth + 1, **changes)


class Walker:
    """Walks several objects; names and shared memory are known across all of them."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self._storages: dict[int, list[tuple[str, int]]] = {}
        self._alive: list[Any] = []
        self._entries: list[Entry] = []
        self._seen: set[int] = set()
        self._registered: set[int] = set()
        self._notes: list[str] = []

    def sections(self, objects: Iterable[tuple[str, Any]]) -> tuple[Section, ...]:
        """One section for each (name, object), in the order given."""
        numbered = list(enumerate(objects))
        # Modules first: optimizers and gradients are told in terms of their parameters.
        numbered.sort(key=lambda item: not isinstance(item[1][1], torch.nn.Module))
        found = {index: self._section(name, value) for index, (name, value) in numbered}
        return tuple(self._with_shared(found[index]) for index in sorted(found))

    def _section(self, name: str, value: Any) -> Section:
        self._entries, self._seen, self._registered, self._notes = [], set(), set(), []
        self.visit(Place((name,), owner=type(value).__name__), value)
        return Section(name, role_of(value), type(value).__name__, tuple(self._entries), tuple(self._notes))

    def _with_shared(self, section: Section) -> Section:
        entries = []
        for entry, storage in zip(section.entries, self._storage_ids(section), strict=True):
            places = self._storages.get(storage, []) if storage else []
            own = next((tensor for path, tensor in places if path == entry.path), None)
            others = [(path, tensor) for path, tensor in places if path != entry.path]
            tied = tuple(path for path, tensor in others if tensor == own)
            shared = tuple(path for path, tensor in others if tensor != own)
            alias = bool(places) and places[0][0] != entry.path
            entries.append(replace(entry, tied=tied, shared=shared, alias=alias))
        return replace(section, entries=tuple(entries))

    def _storage_ids(self, section: Section) -> Iterator[int]:
        by_path = {path: key for key, places in self._storages.items() for path, _ in places}
        return (by_path.get(entry.path, 0) for entry in section.entries)

    # -- by kind of object -----------------------------------------------------------------------

    def visit(self, place: Place, value: Any) -> None:
        """Look at anything."""
        if isinstance(value, torch.Tensor):
            self._tensor(place, value)
            return
        if isinstance(value, _LEAVES) or place.depth > DEPTH or len(self._seen) > LIMIT:
            return
        if id(value) in self._seen:
            return
        if isinstance(value, torch.nn.Module):
            if place.depth == 0 or id(value) not in self._registered:
                self._root_module(place, value)
            return
        self._seen.add(id(value))
        self._alive.append(value)
        if isinstance(value, torch.optim.Optimizer):
            self._optimizer(place, value)
        elif isinstance(value, torch.utils.data.DataLoader):
            self._loader(place, value)
        elif isinstance(value, torch.optim.lr_scheduler.LRScheduler):
            self._attributes(place, value, without="optimizer")
        elif isinstance(value, (dict, types.MappingProxyType)):
            self._items(place, list(value.items()))
            self._attributes(place, value)
        elif isinstance(value, (list, tuple, deque)):
            names = getattr(type(value), "_fields", None)
            self._items(place, list(enumerate(value)) if names is None else [])
            for name, item in zip(names or (), value, strict=False):
                self.visit(place.down(f".{name}", Kind.ITEM), item)
            self._attributes(place, value)
        elif isinstance(value, (set, frozenset)):
            for index, item in enumerate(value):
                self.visit(place.down(f"{{{index}}}", Kind.ITEM), item)
        elif isinstance(value, (types.FunctionType, types.MethodType, functools.partial)):
            self._function(place, value)
        elif _is_plain(type(value)):
            self._attributes(place, value)

    def _items(self, place: Place, items: list[tuple[Any, Any]]) -> None:
        for key, item in items:
            name = self.names.get(id(key)) if isinstance(key, torch.Tensor) else None
            shown = name or (f"<tensor {tuple(key.shape)}>" if isinstance(key, torch.Tensor) else repr(key))
            self.visit(place.down(f"[{shown}]", Kind.ITEM), item)

    def _attributes(self, place: Place, value: Any, without: str = "") -> None:
        owner = type(value).__name__
        for name, item in attributes(value):
            if name != without:
                self.visit(place.down(f".{name}", Kind.ATTRIBUTE, owner=owner), item)

    def _function(self, place: Place, value: Any) -> None:
        """Tensors that a function holds; not the objects it can reach."""
        if isinstance(value, functools.partial):
            self._items(place, [(i, a) for i, a in enumerate(value.args) if _is_data(a)])
            self._items(place, [(k, a) for k, a in value.keywords.items() if _is_data(a)])
            value = value.func
        function = getattr(value, "__func__", value)
        if not isinstance(function, types.FunctionType):
            return
        code = function.__code__
        held: list[tuple[str, Any]] = []
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
            try:
                held.append((name, cell.cell_contents))
            except ValueError:
                continue  # a variable that has no value yet
        defaults = function.__defaults__ or ()
        names = code.co_varnames[: code.co_argcount]
        held += zip(names[len(names) - len(defaults) :], defaults, strict=False)
        held += (function.__kwdefaults__ or {}).items()
        for name, item in held:
            if _is_data(item):
                self.visit(place.down(f"({name})", Kind.CLOSURE), item)

    def _loader(self, place: Place, loader: Any) -> None:
        pinned = "pins its batches" if loader.pin_memory else "does not pin its batches"
        self._notes.append(f"{pinned}; {loader.num_workers} workers")
        self.visit(place.down(".dataset", Kind.ATTRIBUTE), loader.dataset)

    # -- modules ---------------------------------------------------------------------------------

    def _root_module(self, place: Place, module: Any) -> None:
        """A module that no other module has registered."""
        self._registered.update(id(m) for m in module.modules())
        self._registered.update(id(p) for p in module.parameters())
        nested = place.registered is not None
        self._module(
            replace(place, registered=True, module_registered=not nested, in_state_dict=None), module
        )

    def _module(self, place: Place, module: Any) -> None:
        if id(module) in self._seen:
            return
        self._seen.add(id(module))
        place = replace(place, owner=type(module).__name__, registered=True)
        # What an unregistered module holds is saved with nothing above it.
        saved = place.module_registered
        for name, parameter in module._parameters.items():
            if parameter is not None:
                self._tensor(place.down(f".{name}", Kind.PARAMETER, in_state_dict=saved), parameter)
        for name, buffer in module._buffers.items():
            if buffer is not None:
                kept = saved and name not in module._non_persistent_buffers_set
                self._tensor(place.down(f".{name}", Kind.BUFFER, in_state_dict=kept), buffer)
        for name, child in module._modules.items():
            if child is not None:
                step = f"[{name}]" if name.isdigit() else f".{name}"
                self._module(place.down(step, Kind.ITEM), child)
        self._plain_attributes(place, module)

    def _plain_attributes(self, place: Place, module: Any) -> None:
        outside = replace(place, registered=False, in_state_dict=False)
        states = _metric_states(module)
        for name, value in list(vars(module).items()):
            if name in _INTERNAL or (states and name in _METRIC_INTERNAL) or _is_derived(module, name):
                continue
            if name in states:
                kept = bool(getattr(module, "_persistent", {}).get(name))
                reached = replace(place, registered=True, in_state_dict=kept)
                self.visit(reached.down(f".{name}", Kind.BUFFER), value)
            else:
                self.visit(outside.down(f".{name}", Kind.ATTRIBUTE), value)
        for descriptor_name, value in _slots(module):
            self.visit(outside.down(f".{descriptor_name}", Kind.ATTRIBUTE), value)
        for base in type(module).__mro__:
            if base is torch.nn.Module:
                break
            for name, value in list(vars(base).items()):
                if isinstance(value, torch.Tensor) or (isinstance(value, (list, dict, tuple)) and value):
                    self.visit(outside.down(f".{name}", Kind.CLASS), value)
        for hooks in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks"):
            for index, hook in enumerate(getattr(module, hooks, {}).values()):
                self.visit(outside.down(f".{hooks}[{index}]", Kind.CLOSURE), hook)

    # -- optimizers ------------------------------------------------------------------------------

    def _optimizer(self, place: Place, optimizer: Any) -> None:
        owner = type(optimizer).__name__
        strangers = 0
        for number, group in enumerate(optimizer.param_groups):
            for index, parameter in enumerate(group["params"]):
                if id(parameter) not in self.names:
                    strangers += 1
                    at = place.down(f".param_groups[{number}]['params']", Kind.ITEM)
                    self._tensor(at.down(f"[{index}]", Kind.PARAMETER, owner=owner), parameter)
            for name, value in group.items():
                if name != "params":
                    step = f".param_groups[{number}][{name!r}]"
                    self.visit(place.down(step, Kind.OPTIMIZER_STATE, owner=owner), value)
        if strangers and self.names:
            self._notes.append(f"{strangers} of its parameters are in no module given")
        for parameter, state in optimizer.state.items():
            follows = str(parameter.device) if isinstance(parameter, torch.Tensor) else None
            name = self.names.get(id(parameter), "?")
            below = place.down(".state", Kind.OPTIMIZER_STATE).down(
                f"[{name}]", Kind.OPTIMIZER_STATE, owner=owner, follows=follows, in_state_dict=True
            )
            for key, value in state.items() if isinstance(state, dict) else ():
                if isinstance(value, torch.Tensor):
                    free = value.dim() == 0 and key == "step"
                    at = below.down(f".{key}", Kind.OPTIMIZER_STATE, follows=None if free else follows)
                    self._tensor(at, value)
                else:
                    self.visit(below.down(f".{key}", Kind.OPTIMIZER_STATE), value)

    # -- tensors ---------------------------------------------------------------------------------

    def _tensor(self, place: Place, tensor: Any) -> None:
        if place.kind is not Kind.PARAMETER and id(tensor) in self._registered:
            return  # another way to a registered parameter: `.to` keeps it the same object
        path = "".join(place.steps)
        self._alive.append(tensor)
        self.names.setdefault(id(tensor), path)
        storage = _storage_id(tensor)
        if storage:
            self._storages.setdefault(storage, []).append((path, id(tensor)))
        self._entries.append(
            Entry(
                steps=place.steps,
                kind=place.kind,
                device=str(tensor.device),
                dtype=str(tensor.dtype).removeprefix("torch."),
                shape=_shape(tensor),
                nbytes=_nbytes(tensor),
                registered=place.registered,
                in_state_dict=place.in_state_dict,
                follows=place.follows,
                owner=place.owner,
                module_registered=place.module_registered,
                requires_grad=bool(tensor.requires_grad),
            )
        )
        gradient = tensor.grad if tensor.is_leaf else None
        if gradient is not None:
            below = place.down(".grad", Kind.GRADIENT, follows=str(tensor.device), in_state_dict=None)
            self._tensor(below, gradient)


def role_of(value: Any) -> Role:
    """What kind of object it is."""
    names = {base.__name__ for base in type(value).__mro__}
    name = type(value).__name__.lower()
    if isinstance(value, torch.nn.Module):
        if isinstance(value, torch.nn.modules.loss._Loss):
            return Role.LOSS
        if "Metric" in names or "MetricCollection" in names:
            return Role.METRIC
        return Role.COPY if "AveragedModel" in names or _says_average(name) else Role.MODEL
    if isinstance(value, torch.optim.Optimizer):
        return Role.OPTIMIZER
    if isinstance(value, torch.optim.lr_scheduler.LRScheduler):
        return Role.SCHEDULER
    if isinstance(value, torch.utils.data.DataLoader):
        return Role.LOADER
    if isinstance(value, (torch.Tensor, dict, list, tuple, set)):
        return Role.DATA
    if "Metric" in names:
        return Role.METRIC
    return Role.COPY if _says_average(name) else Role.OBJECT


def _says_average(name: str) -> bool:
    return "ema" in name.replace("schema", "").replace("semantic", "") or "average" in name or "swa" in name


def _metric_states(module: Any) -> frozenset[str]:
    """Names of a torchmetrics metric's states: its `_apply` moves them."""
    if not any(base.__name__ == "Metric" for base in type(module).__mro__):
        return frozenset()
    defaults = getattr(module, "_defaults", None)
    return frozenset(defaults) if isinstance(defaults, dict) else frozenset()


def _is_derived(module: Any, name: str) -> bool:
    """Computed anew from registered parameters at each forward: weight norm, spectral norm, pruning."""
    parameters = module._parameters
    return f"{name}_g" in parameters or f"{name}_orig" in parameters or f"{name}_v" in parameters


def _slots(module: Any) -> list[tuple[str, Any]]:
    own = vars(module)
    return [(name, value) for name, value in attributes(module) if name not in own]


def _is_plain(cls: type) -> bool:
    """A class written in Python that is neither the standard library's nor torch's machinery."""
    if not cls.__flags__ & (1 << 9) or issubclass(cls, type):
        return cls is types.SimpleNamespace
    package = cls.__module__.partition(".")[0]
    if package == "torch":
        return cls.__module__.startswith(
            ("torch.utils.data", "torch.optim", "torch.nn.utils.rnn", "torch.amp")
        )
    return package not in sys.stdlib_module_names or package in ("__main__", "collections", "argparse")


def _is_data(value: Any) -> bool:
    return isinstance(value, (torch.Tensor, dict, list, tuple, set, frozenset))


def _storage_id(tensor: Any) -> int:
    try:
        storage = tensor.untyped_storage()
        return int(storage._cdata) if storage.nbytes() else 0
    except Exception:
        return 0  # layouts and subclasses without a storage of their own


def _shape(tensor: Any) -> tuple[int, ...]:
    try:
        return tuple(int(size) for size in tensor.shape)
    except Exception:
        return (int(tensor.size(0)),)  # nested: only the first size is a number


def _nbytes(tensor: Any) -> int:
    try:
        if tensor.layout == torch.strided:
            return int(tensor.numel()) * int(tensor.element_size())
        if tensor.layout == torch.sparse_coo:
            return _nbytes(tensor._indices()) + _nbytes(tensor._values())
        return int(tensor.nbytes)
    except Exception:
        return 0
