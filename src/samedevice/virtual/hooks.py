"""Hooks of backward passes: what they return must be of the gradient's type, as C++ would check.

C++ compares the types of CPU tensors here and finds them the same, so the comparison is made around the hook.
"""

import functools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import torch

from samedevice.virtual import edges
from samedevice.virtual.check import wording
from samedevice.virtual.patches import Patches
from samedevice.virtual.refusal import Refusal
from samedevice.virtual.tags import UNSETTLED, device_index, device_name

if TYPE_CHECKING:
    from samedevice.virtual.engine import Engine

_Tensor: Final = torch.Tensor
_Disable: Final = torch._C.DisableTorchFunction
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

    def __call__(self, gradients: Any, *outputs: Any) -> Any:
        results = self.hook(gradients, *outputs)
        if not self.engine.active or not isinstance(results, tuple):
            return results
        for index, (gradient, result) in enumerate(zip(gradients, results, strict=False)):
            if not isinstance(gradient, _Tensor) or not isinstance(result, _Tensor) or result is gradient:
                continue
            before, after = check_result(self.engine, gradient, result, self.hook)
            if before != after:
                with _Disable():
                    node = torch._C._current_autograd_node()
                    # What the node has computed goes to the next one; what it was given, it takes itself.
                    taker = node.next_functions[index][0] if outputs and node is not None else node
                    _expect(self.engine, taker, before, after)
        return results


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
    name = node.name()  # not the node, which would live as long as its hook

    def check(grad_inputs: tuple[Any, ...], grad_outputs: tuple[Any, ...]) -> None:
        handle.remove()
        with _Disable():
            for index, gradient in enumerate(grad_inputs):
                if gradient is None or gradient.dim() == 0 or device_index(gradient) != got:
                    continue
                message = (
                    f"Function {name} returned an invalid gradient at index {index} - "
                    f"expected device {device_name(wanted)} but got {device_name(got)}"
                )
                operands = (("gradient", gradient, got),)
                extra = {"function": name, "index": index}
                engine.refuse(Refusal(RuntimeError, message, "gradient", operands, wanted, 0, extra=extra))
                engine.settle(gradient, wanted)

    handle = node.register_hook(check)


def grad_fn(engine: "Engine", func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`Tensor.grad_fn`: an edge to the node may be made from it, and a gradient be given for that."""
    node = func(*args)
    if node is not None:
        with _Disable():
            edges.remember(node, args[0].output_nr, engine.device_of(args[0]))
    return node


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
    # C++ asks this one for every hook that is put on a node, however the program came by the node.
    on_node = torch.autograd.Function._register_hook

    def register_node_hook(known: Any, hook: Callable[..., Any]) -> Any:
        if not str(getattr(hook, "__module__", "")).startswith("samedevice."):
            engine.exact_backward = True
            hook = CheckedNodeHook(engine, hook)
        return on_node(known, hook)

    patches.set(torch.autograd.Function, "_register_hook", staticmethod(register_node_hook))


TABLE: Final = {_Tensor.grad_fn.__get__: grad_fn}
