"""Hooks of backward passes: what they return must be of the gradient's type, as C++ would check.

C++ compares the types of CPU tensors here and finds them the same, so the comparison is made around the hook.
"""

import dis
import functools
import itertools
import sys
import weakref
from collections.abc import Callable
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

import torch

from samedevice.virtual.check import wording
from samedevice.virtual.patches import Patches
from samedevice.virtual.refusal import Refusal
from samedevice.virtual.tags import UNSETTLED, device_index, device_name

if TYPE_CHECKING:
    from samedevice.virtual.engine import Engine

_Tensor: Final = torch.Tensor
_Disable: Final = torch._C.DisableTorchFunction
_REGISTER: Final = frozenset({"register_hook", "register_prehook"})
#: nodes that send the gradient back to where the tensor came from, wherever it is
_MOVES: Final = ("ToCopyBackward0", "CopyBackwards", "CopyBackward0")


class CheckedHook:
    """A hook of a tensor, and the check of what it returns; passes for the hook itself."""

    def __init__(self, engine: "Engine", hook: Callable[..., Any], tensor: torch.Tensor) -> None:
        self.engine = engine
        self.hook = hook
        self.tensor = weakref.ref(tensor)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.hook, name)

    def __call__(self, gradient: Any) -> Any:
        engine, tensor = self.engine, self.tensor()
        if not engine.active or not isinstance(gradient, _Tensor):
            return self.hook(gradient)
        if tensor is not None:
            with _Disable():
                engine.settle_gradient(gradient, tensor)
        result = self.hook(gradient)
        if isinstance(result, _Tensor) and result is not gradient:
            before, after = check_result(engine, gradient, result, self.hook)
            if before != after and tensor is not None:
                with _Disable():
                    _expect(engine, tensor.grad_fn, before, after)
        return result


class CheckedNodeHook:
    """The same for a hook of a node, which gets and returns several gradients."""

    def __init__(self, engine: "Engine", hook: Callable[..., Any]) -> None:
        self.engine = engine
        self.hook = hook

    def __getattr__(self, name: str) -> Any:
        return getattr(self.hook, name)

    def __call__(self, gradients: Any, *more: Any) -> Any:
        results = self.hook(gradients, *more)
        if self.engine.active and isinstance(results, tuple):
            for gradient, result in zip(gradients, results, strict=False):
                if isinstance(gradient, _Tensor) and isinstance(result, _Tensor):
                    check_result(self.engine, gradient, result, self.hook)
        return results


class WatchedNode:
    """Stands for a node of C++ while hooks are put on it: the methods of its type cannot be replaced."""

    def __init__(self, engine: "Engine", node: Any) -> None:
        self.engine = engine
        self.node = node

    def __getattr__(self, name: str) -> Any:
        return getattr(self.node, name)

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """As the node's."""
        return tuple(
            (None if node is None else WatchedNode(self.engine, node), index)
            for node, index in self.node.next_functions
        )

    def register_hook(self, hook: Callable[..., Any]) -> Any:
        """As the node's."""
        return self.node.register_hook(CheckedNodeHook(self.engine, hook))

    def register_prehook(self, hook: Callable[..., Any]) -> Any:
        """As the node's."""
        return self.node.register_prehook(CheckedNodeHook(self.engine, hook))


def check_result(
    engine: "Engine", gradient: torch.Tensor, result: torch.Tensor, hook: Any
) -> tuple[int, int]:
    """Refuse a result of another type; returns the devices before and after.

    Raises:
        RuntimeError: another element type, or another kind of device.
    """
    with _Disable():
        before, after = device_index(gradient), device_index(result)
        if UNSETTLED in (before, after):
            engine.settle(*((gradient, after) if before == UNSETTLED else (result, before)))
            after = before = device_index(gradient)
        if gradient.dtype == result.dtype and (before >= 0) == (after >= 0):
            return before, after
        message = (
            f"hook '{getattr(hook, '__name__', '<unknown>')}' has changed the type of value "
            f"(was {wording.type_name(gradient, before)} got {wording.type_name(result, after)})"
        )
        if (before >= 0) == (after >= 0):
            raise RuntimeError(message)
        operands = (("gradient", gradient, before), ("result", result, after))
        engine.refuse(Refusal(RuntimeError, message, "gradient", operands, before, 1))
        engine.settle(result, before)
        return before, before


def _expect(engine: "Engine", node: Any, wanted: int, got: int) -> None:
    """The node that takes a gradient from another GPU gives one there, which the engine refuses."""
    if node is None or node.name() in _MOVES:
        return

    def check(grad_inputs: tuple[Any, ...], grad_outputs: tuple[Any, ...]) -> None:
        handle.remove()
        with _Disable():
            for index, gradient in enumerate(grad_inputs):
                if gradient is None or gradient.dim() == 0 or device_index(gradient) != got:
                    continue
                message = (
                    f"Function {node.name()} returned an invalid gradient at index {index} - "
                    f"expected device {device_name(wanted)} but got {device_name(got)}"
                )
                operands = (("gradient", gradient, got),)
                extra = {"function": node.name(), "index": index}
                engine.refuse(Refusal(RuntimeError, message, "gradient", operands, wanted, 0, extra=extra))
                engine.settle(gradient, wanted)

    handle = node.register_hook(check)


def grad_fn(engine: "Engine", func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`Tensor.grad_fn`: who asks for it to register a hook takes part in backward passes."""
    node = func(*args)
    if node is None:
        return None
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith("samedevice."):
        frame = frame.f_back
    if _REGISTER.isdisjoint(frame.f_code.co_names):
        return node
    engine.exact_backward = True
    return WatchedNode(engine, node) if _is_hooked_at_once(frame.f_code, frame.f_lasti) else node


@functools.lru_cache(maxsize=256)
def _is_hooked_at_once(code: CodeType, lasti: int) -> bool:
    """Whether an expression reads `grad_fn` for nothing but a hook: nobody keeps the node that it goes through.

    It is `x.grad_fn.register_hook`, with `.next_functions[0][0]` in between as often as one likes.
    """
    following = itertools.dropwhile(lambda at: at.offset != lasti, dis.get_instructions(code))
    read = next(following, None)
    if read is None or read.opname != "LOAD_ATTR" or read.argval != "grad_fn":
        return False
    for instruction in following:
        if instruction.opname in ("LOAD_METHOD", "LOAD_ATTR"):
            if instruction.argval in _REGISTER:
                return True
            if instruction.argval != "next_functions":
                return False
        elif instruction.opname not in ("LOAD_CONST", "BINARY_SUBSCR"):
            return False
    return False


def _watch_python_nodes(patches: Patches, engine: "Engine", name: str) -> None:
    """Nodes of `torch.autograd.Function` have a class of Python's."""
    owner = torch.autograd.function.BackwardCFunction
    register = getattr(owner, name)

    @functools.wraps(register)
    def registered(self: Any, hook: Callable[..., Any]) -> Any:
        engine.exact_backward = True
        return register(self, hook if isinstance(hook, CheckedNodeHook) else CheckedNodeHook(engine, hook))

    patches.set(owner, name, registered)


def install(patches: Patches, engine: "Engine") -> None:
    """Watch the hooks that are registered from now on."""
    register = _Tensor.register_hook

    @functools.wraps(register)
    def register_hook(self: torch.Tensor, hook: Callable[..., Any]) -> Any:
        engine.exact_backward = True
        return register(self, CheckedHook(engine, hook, self))

    patches.set(_Tensor, "register_hook", register_hook)
    after = _Tensor.register_post_accumulate_grad_hook

    @functools.wraps(after)
    def register_post_accumulate_grad_hook(self: torch.Tensor, hook: Callable[..., Any]) -> Any:
        engine.exact_backward = True
        return after(self, hook)

    patches.set(_Tensor, "register_post_accumulate_grad_hook", register_post_accumulate_grad_hook)
    for name in _REGISTER:
        _watch_python_nodes(patches, engine, name)
    module_hook = torch.utils.hooks.BackwardHook
    apply = module_hook._apply_on_tensors

    def apply_on_tensors(self: Any, fn: Callable[[Any], None], args: Any) -> Any:
        return apply(self, lambda node: fn(WatchedNode(engine, node)), args)

    patches.set(module_hook, "_apply_on_tensors", apply_on_tensors)


TABLE: Final = {_Tensor.grad_fn.__get__: grad_fn}
