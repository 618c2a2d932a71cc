"""What happens at the level of torch's functions: the table of handlers, and the default."""

import sys
from collections.abc import Callable
from typing import Any, Final

import torch
from torch.utils import _device

from samedevice.virtual import (
    attention,
    creation,
    fast,
    followers,
    hooks,
    moves,
    precision,
    properties,
    values_read,
    widened,
)
from samedevice.virtual.engine import Engine
from samedevice.virtual.patches import Patches
from samedevice.virtual.surface import generators

#: answered without a look: the raw storage is what our own code reads
_CHECKS: Final = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")


class Functions:
    """Answers each call that the function mode sees."""

    def __init__(self, engine: Engine, more: dict[Any, Callable[..., Any]] | None = None) -> None:
        self.engine = engine
        self.fast = fast.FastTier(engine, self.exact)
        self.table: dict[Any, creation.Handler] = {
            **moves.TABLE,
            **properties.TABLE,
            **creation.TABLE,
            **followers.TABLE,
            **hooks.TABLE,
            **{func: _adapted(handler) for func, handler in (more or {}).items()},
        }
        self.table[torch.nn.functional.scaled_dot_product_attention] = self._attend
        for func in generators.drawing_functions():
            self.table.setdefault(func, self._draw)
        for func in precision.NORMS:
            self.table.setdefault(func, self._normalise)
        for func in values_read.READING:
            self.table.setdefault(func, self._read)
        for func in fast.TRANSPARENT:
            self.table.setdefault(func, _as_it_is)

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
        """Run `func` on virtual devices."""
        if kwargs is None:
            kwargs = {}
        handler = self.table.get(func)
        if handler is _as_it_is:
            return func(*args, **kwargs)
        engine = self.engine
        if not engine.active:
            return func(*args, **kwargs)
        if handler is not None:
            return handler(engine, func, args, kwargs)
        return self._untabled(func, args, kwargs)

    def _untabled(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        engine = self.engine
        try:
            if (kwargs and kwargs.get("device") is not None) or (
                _device.CURRENT_DEVICE is not None and func in _device._device_constructors()
            ):
                return creation.create(engine, func, args, kwargs)
            if kwargs and kwargs.get("pin_memory"):
                return creation.pinned_factory(engine, func, args, kwargs)
            if engine.state.exact:
                return engine.plain(func, args, kwargs)
            if engine.alert is not None:
                return self.exact(func, args, kwargs)
            return self.fast.call(func, args, kwargs)
        except RuntimeError as error:
            if not widened.concerns(engine, func, args, kwargs, error):
                raise
        return widened.call(engine, self._untabled, func, args, kwargs)

    def _draw(self, engine: Engine, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function that draws random numbers: seeding a GPU asks later whether it has drawn."""
        result = self._untabled(func, args, kwargs)
        with torch._C.DisableTorchFunction():
            first = result[0] if isinstance(result, tuple) else result
            if isinstance(first, torch.Tensor) and engine.device_of(first) >= 0:
                engine.machine.draws += 1
        return result

    def _attend(self, engine: Engine, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return attention.attend(engine, self._draw, func, args, kwargs)

    def _normalise(self, engine: Engine, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        precision.judge_norm(engine, args, kwargs)
        return self._untabled(func, args, kwargs)

    def _read(self, engine: Engine, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function that reads a value: a meta tensor has none."""
        try:
            return self._untabled(func, args, kwargs)
        except RuntimeError as error:
            values_read.refuse_without_data(engine, args, error)
            raise

    def exact(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One call through the exact tier."""
        with self.engine.exactly():
            return self.engine.plain(func, args, kwargs)


def _as_it_is(engine: Engine, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function that makes no tensor and asks for no device."""
    return func(*args, **kwargs)


def _adapted(handler: Callable[..., Any]) -> creation.Handler:
    """The surface's handlers take their arguments in the order of `__torch_function__`."""

    def handle(engine: Engine, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return handler(func, (), args, kwargs, engine)

    return handle


def see_through_python_functions(patches: Patches) -> None:
    """Let torch's own Python functions run as they are.

    `torch.nn.functional.linear` and its kin ask `has_torch_function` first and would be handed to
    the mode as a whole, which is popped while they run; then nobody would answer for the devices
    inside. Told that only real subclasses matter, they run in the open.
    """
    has_override = torch._C._has_torch_function
    disabled = torch._C._disabled_torch_function_impl
    enabled = torch._C._is_torch_function_enabled
    plain_types = {torch.Tensor, torch.nn.Parameter, torch.nn.Buffer}

    def overrides(value: Any) -> bool:
        cls = type(value)
        if cls in plain_types:
            return False
        own = getattr(cls, "__torch_function__", None)
        # Parameter and its subclasses carry the disabled implementation.
        return own is not None and own is not disabled and not isinstance(value, type)

    def has_torch_function(values: Any) -> bool:
        return any(map(overrides, values)) and has_override(values)

    def has_torch_function_unary(value: Any) -> bool:
        return overrides(value) and enabled()

    def has_torch_function_variadic(*values: Any) -> bool:
        return any(map(overrides, values)) and enabled()

    replacements = {
        "has_torch_function": has_torch_function,
        "has_torch_function_unary": has_torch_function_unary,
        "has_torch_function_variadic": has_torch_function_variadic,
    }
    originals = {name: getattr(torch.overrides, name) for name in _CHECKS}
    for module_name, module in list(sys.modules.items()):
        if module is None or not (module_name == "torch" or module_name.startswith("torch.")):
            continue
        names = vars(module)
        for name in _CHECKS:
            if names.get(name) is originals[name]:
                patches.set(module, name, replacements[name])
