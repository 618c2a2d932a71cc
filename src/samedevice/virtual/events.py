"""Events worth a step of the story: modules made and moved, optimizers, checkpoints, copies."""

import copy
import sys
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from samedevice.model.scene import Action
from samedevice.virtual.devices import resolve
from samedevice.virtual.patches import Patches
from samedevice.virtual.places import here
from samedevice.virtual.provenance import Birth, ByIdentity, Happened, ModuleMade, ModuleMoved, reference
from samedevice.virtual.tags import CPU, META, UNSETTLED, device_index, tag_of

if TYPE_CHECKING:
    from samedevice.virtual.engine import Engine


def install(patches: Patches, engine: "Engine") -> None:
    """Record what happens to modules, optimizers and checkpoints."""
    _watch_modules(patches, engine)
    _watch_optimizers(patches, engine)
    _watch_copies(patches, engine)


def _watch_modules(patches: Patches, engine: "Engine") -> None:
    module = torch.nn.Module
    session = engine.session
    made = module.__init__

    def initialise(self: Any, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        try:
            session.made[self] = ModuleMade(weakref.ref(self), type(self).__name__, here(2))
        except TypeError:
            pass  # a module that cannot be hashed or referenced weakly is not tracked

    patches.set(module, "__init__", initialise)

    parts = ByIdentity()  # a model moved in a loop keeps one list of what it contains

    def record(self: Any, device: int | None, function: str) -> None:
        ref = reference(self)
        if device is not None and ref is not None:
            inside = tuple(r for r in map(reference, self.modules()) if r is not None)
            known = parts.get(self)
            if known is None or known != inside:
                parts[self] = known = inside
            session.record(ModuleMoved(ref, type(self).__name__, device, function, here(3), known))

    moved_to, moved_to_gpu, moved_to_cpu = module.to, module.cuda, module.cpu

    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = moved_to(self, *args, **kwargs)
        record(self, _target(args, kwargs), "Module.to")
        return result

    def cuda(self: Any, device: Any = None) -> Any:
        result = moved_to_gpu(self, device)
        record(self, _index("cuda" if device is None else device), "Module.cuda")
        return result

    def cpu(self: Any) -> Any:
        result = moved_to_cpu(self)
        record(self, CPU, "Module.cpu")
        return result

    def _index(spec: Any) -> int | None:
        try:
            found = resolve(spec, engine.machine)
        except (RuntimeError, TypeError):
            return None
        return found if isinstance(found, int) else None

    def _target(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int | None:
        spec = args[0] if args else kwargs.get("device", kwargs.get("tensor"))
        if spec is None or isinstance(spec, torch.dtype):
            return None
        return _index(spec.device if isinstance(spec, torch.Tensor) else spec)

    for name, replacement in (("to", to), ("cuda", cuda), ("cpu", cpu)):
        patches.set(module, name, _like(replacement, getattr(module, name)))

    load = module.load_state_dict

    def load_state_dict(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = _device_of_parameters(self)
        result = load(self, *args, **kwargs)
        after = _device_of_parameters(self)
        session.record(
            Happened("module-state-loaded", here(2), reference(self), {"class_name": type(self).__name__})
        )
        # `assign=True` takes the loaded tensors themselves, wherever they are.
        if before != after and UNSETTLED not in (before, after) and META not in (before, after):
            record(self, after, "Module.load_state_dict")
        return result

    patches.set(module, "load_state_dict", _like(load_state_dict, load))


def _device_of_parameters(module: Any) -> int:
    """Where all parameters of a module are; UNSETTLED when it has none, or they are not together."""
    with torch._C.DisableTorchFunction():
        found = {device_index(parameter) for parameter in module.parameters()}
    return found.pop() if len(found) == 1 else UNSETTLED


def _watch_optimizers(patches: Patches, engine: "Engine") -> None:
    optimizer = torch.optim.Optimizer
    session = engine.session

    def watched(name: str, what: str) -> Callable[..., Any]:
        original = getattr(optimizer, name)

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, *args, **kwargs)
            session.record(Happened(what, here(2), reference(self), {"class_name": type(self).__name__}))
            return result

        return _like(call, original)

    patches.set(optimizer, "__init__", watched("__init__", "optimizer-created"))
    patches.set(optimizer, "load_state_dict", watched("load_state_dict", "optimizer-state-loaded"))


def _watch_copies(patches: Patches, engine: "Engine") -> None:
    deepcopy = copy.deepcopy

    def watched(x: Any, memo: Any = None, _nil: Any = []) -> Any:  # noqa: B006 - copy.deepcopy's own signature
        result = deepcopy(x, memo) if memo is not None else deepcopy(x)
        if memo is None and isinstance(x, torch.nn.Module) and engine.active:
            detail = {"class_name": type(x).__name__, "source": reference(x)}
            engine.session.record(Happened("deepcopy", here(2), reference(result), detail))
            _label_copies(result)
        return result

    replacement = _like(watched, deepcopy)
    _exchange(deepcopy, replacement)
    patches.on_undo(lambda: _exchange(replacement, deepcopy))


def _exchange(old: Any, new: Any) -> None:
    """Put `new` in the place of `old` in every module, as `from copy import deepcopy` takes it along."""
    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get("deepcopy") is old:
            module.deepcopy = new  # type: ignore[attr-defined]


def _label_copies(module: Any) -> None:
    """The copies' tensors begin here: what is computed from them goes back to the copy."""
    place = here(3)
    with torch._C.DisableTorchFunction():
        for tensor in (*module.parameters(), *module.buffers()):
            tag = tag_of(tensor)
            if tag is not None and tag.birth is not None:
                tag.birth = Birth(tag.device, Action.COPIED, "copy.deepcopy", place, (tag.birth,))


def _like(replacement: Callable[..., Any], original: Any) -> Callable[..., Any]:
    """Name, documentation and signature of the original, for programs that look."""
    for attribute in ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__"):
        try:
            setattr(replacement, attribute, getattr(original, attribute))
        except AttributeError:
            pass
    replacement.__wrapped__ = original  # type: ignore[attr-defined]
    return replacement
