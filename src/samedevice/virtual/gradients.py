"""Gradients have devices too: what the autograd engine would check on CUDA.

C++ sees CPU tensors only, so its own checks never fire. They are made here: for the gradients
that a custom `autograd.Function` returns, for the ones given to `backward()` from outside, and
for the ones assigned to `.grad`.
"""

import inspect
import re
from typing import TYPE_CHECKING, Any, Final

import torch

from samedevice.virtual import edges
from samedevice.virtual.fast import settle_gradients
from samedevice.virtual.moves import move
from samedevice.virtual.patches import Patches
from samedevice.virtual.refusal import Refusal
from samedevice.virtual.tags import META, UNSETTLED, device_index, device_name, tag_of

if TYPE_CHECKING:
    from samedevice.virtual.engine import Engine

_FOR_META: Final = re.compile(
    r"(?P<head>Function (?P<name>\w+) returned an invalid gradient at index (?P<index>\d+) - "
    r"expected device meta but got )cpu$"
)
#: on the node of a custom function: where its outputs are
_OUTPUTS: Final = "_samedevice_outputs"


def install(patches: Patches, engine: "Engine") -> None:
    """Watch `Function.apply` and the entry into the autograd engine."""
    function = torch.autograd.Function
    # A Python classmethod up to 2.13, a C one since 2.14.
    original = inspect.getattr_static(function, "apply")

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if engine.active and torch.is_grad_enabled():
            engine.exact_backward = True
        result = original.__get__(None, cls)(*args, **kwargs)
        if engine.active and torch.is_grad_enabled():
            _watch(engine, result, args)
        return result

    patches.set(function, "apply", classmethod(apply))
    node_class = torch.autograd.function.BackwardCFunction
    user_backward = node_class.apply

    def backward(self: Any, *gradients: Any) -> Any:
        places = vars(self).get(_OUTPUTS, ())
        with torch._C.DisableTorchFunction():
            # C++ puts zeros for the gradients of outputs that nothing used.
            for gradient, place in zip(gradients, places, strict=False):
                if isinstance(gradient, torch.Tensor) and device_index(gradient) == UNSETTLED:
                    engine.settle(gradient, place)
        return user_backward(self, *gradients)

    patches.set(node_class, "apply", backward)

    original_run = torch.autograd.graph._engine_run_backward

    def running(outputs: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return original_run(outputs, *args, **kwargs)
        except RuntimeError as error:
            _refuse_for_meta(engine, outputs, error)
            raise

    def run_backward(outputs: Any, *args: Any, **kwargs: Any) -> Any:
        if not engine.active:
            return original_run(outputs, *args, **kwargs)
        if args:
            args = (_check_given(engine, outputs, args[0]), *args[1:])
        if engine.exact_backward or engine.alert is not None or _older_than_a_move(engine, outputs):
            with engine.exactly():
                gradients = running(outputs, *args, **kwargs)
        else:
            gradients = running(outputs, *args, **kwargs)
        inputs = args[3] if len(args) > 3 else kwargs.get("inputs")
        if gradients and inputs:
            settle_gradients(engine, inputs, gradients)
        return gradients

    patches.set(torch.autograd.graph, "_engine_run_backward", run_backward)
    patches.set(torch.autograd, "_engine_run_backward", run_backward)


def _refuse_for_meta(engine: "Engine", outputs: Any, error: RuntimeError) -> None:
    """A matrix product takes a meta tensor, on CUDA too; its gradient has no place to be.

    Raises:
        RuntimeError: as C++ has raised it, with the device that the gradient has.
    """
    found = _FOR_META.match(str(error))
    roots = [edge.node if edges.is_edge(edge) else edge.grad_fn for edge in outputs]
    if found is None or not roots:
        return
    with torch._C.DisableTorchFunction():
        device = edges.device_of(outputs[0]) if edges.is_edge(outputs[0]) else device_index(outputs[0])
        tensor = _without_data(roots, found["name"], int(found["index"]))
    text = f"{found['head']}{device_name(device)}"
    operands = () if tensor is None else (("self", tensor, META),)
    engine.refuse(Refusal(RuntimeError, text, "meta", operands, device, 0, recoverable=False))


def _without_data(roots: list[Any], name: str, index: int) -> torch.Tensor | None:
    """The leaf on meta that a node of this name gives its gradient to."""
    waiting, seen = list(roots), set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        following = [taker for taker, _ in node.next_functions]
        if node.name() == name and index < len(following):
            at = following[index]
            while at is not None:
                leaf = getattr(at, "variable", None)
                if isinstance(leaf, torch.Tensor) and leaf.is_meta:
                    return leaf
                # `weight.t()` and its kin
                at = at.next_functions[0][0] if at.next_functions else None
        waiting += following
    return None


def _older_than_a_move(engine: "Engine", outputs: Any) -> bool:
    """Whether the graph may have leaves that have moved since it was made: their gradients stay behind."""
    if not engine.leaf_moved_at:
        return False
    for output in outputs:
        tag = tag_of(output) if isinstance(output, torch.Tensor) else None
        if tag is not None and tag.birth is not None and tag.birth.seq < engine.leaf_moved_at:
            return True
    return False


def _watch(engine: "Engine", result: Any, args: tuple[Any, ...]) -> None:
    """Check, after the custom backward has run, that each gradient is where its input was."""
    results = result if isinstance(result, (tuple, list)) else (result,)
    outputs = [t for t in results if isinstance(t, torch.Tensor)]
    with torch._C.DisableTorchFunction():
        node = next((t.grad_fn for t in outputs if t.grad_fn is not None), None)
        if node is None or torch._C._are_functorch_transforms_active():
            return
        expected = [device_index(t) for t in args if isinstance(t, torch.Tensor)]
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            places = [device_index(t) if isinstance(t, torch.Tensor) else UNSETTLED for t in results]
            setattr(node, _OUTPUTS, places)
    name = (
        node.name()
    )  # a hook that knew its node would keep it, and what it has saved, until garbage is collected

    def check(grad_inputs: tuple[Any, ...], grad_outputs: tuple[Any, ...]) -> None:
        if len(grad_inputs) != len(expected):
            return
        with torch._C.DisableTorchFunction():
            for i, (gradient, wanted) in enumerate(zip(grad_inputs, expected, strict=True)):
                if gradient is None:
                    continue
                got = device_index(gradient)
                if got == UNSETTLED:
                    engine.settle(gradient, wanted)
                elif got != wanted and gradient.dim() == 0:
                    engine.settle(gradient, wanted)  # moved silently
                elif got != wanted:
                    engine.refuse(
                        Refusal(
                            RuntimeError,
                            f"Function {name} returned an invalid gradient at index {i} - "
                            f"expected device {device_name(wanted)} but got {device_name(got)}",
                            "gradient",
                            (("gradient", gradient, got),),
                            wanted,
                            0,
                            extra={"function": name, "index": i},
                        )
                    )
                    engine.settle(gradient, wanted)

    node.register_hook(check)


def _shape_of(tensor: torch.Tensor) -> Any:
    """The shape; of a nested tensor, which has no one shape, nothing."""
    return None if tensor.is_nested else tensor.shape


def _check_given(engine: "Engine", outputs: Any, gradients: Any) -> Any:
    """The gradients that the program itself hands to `backward` or `autograd.grad`, where the engine takes them."""
    taken = list(gradients)
    with torch._C.DisableTorchFunction():
        for i, (output, gradient) in enumerate(zip(outputs, gradients, strict=False)):
            if not isinstance(gradient, torch.Tensor):
                continue
            got = device_index(gradient)
            operands: tuple[tuple[str, torch.Tensor, int], ...] = (("gradient", gradient, got),)
            if edges.is_edge(output):
                wanted, shape = edges.device_of(output), edges.shape_of(output)
            elif isinstance(output, torch.Tensor):
                wanted, shape = device_index(output), _shape_of(output)
                operands = (("output", output, wanted), *operands)
            else:
                continue
            if got == UNSETTLED:
                engine.settle(gradient, wanted)
            # The engine checks shapes first.
            elif got == wanted or wanted == UNSETTLED or _shape_of(gradient) != shape:
                continue
            elif gradient.dim() == 0:
                taken[i] = move(engine, gradient, wanted, "Tensor.backward")
            else:
                engine.refuse(
                    Refusal(
                        RuntimeError,
                        f"invalid gradient at index {i} - expected device {device_name(wanted)} "
                        f"but got {device_name(got)}",
                        "gradient",
                        operands,
                        wanted,
                        len(operands) - 1,
                    )
                )
                engine.settle(gradient, wanted)
    return tuple(taken)
