"""Custom `autograd.Function`s: `apply` runs `forward`, and then `backward` with gradients of the result."""

import ast

from samedevice.lint import meet
from samedevice.lint.devices import differ
from samedevice.lint.meet import Operand
from samedevice.lint.run import Frame, Run
from samedevice.lint.state import options
from samedevice.lint.tensors import tensor_of
from samedevice.lint.values import NONE, Class, Func, Instance, Method, Native, Seq, Tensor, Unknown, Value


def apply_of(run: Run, cls: Class) -> Native:
    """`Cls.apply`."""
    return Native("apply", lambda args, kwargs, node, frame: apply(run, cls, args, node, frame))


def context() -> Instance:
    """What `forward` and `backward` get as `ctx`."""
    return Instance(None, "torch.autograd.ctx", None)


def apply(run: Run, cls: Class, args: list[Value], node: ast.AST, frame: Frame) -> Value:
    """Run the function's `forward`, then its `backward`."""
    from samedevice.lint import calls

    forward = cls.find("forward")
    if forward is None or not isinstance(forward[1], Func):
        return Unknown()
    ctx = context()
    result = calls.invoke(run, forward[1], None, [ctx, *args], {}, node, frame)
    backward = cls.find("backward")
    if backward is not None and isinstance(backward[1], Func):
        gradients = [
            gradient(run, item, node, frame)
            for item in (result.items if isinstance(result, Seq) else (result,))
        ]
        given = calls.invoke(run, backward[1], None, [ctx, *gradients], {}, node, frame)
        judge(run, given, args, backward[1], frame, node)
    return result


def gradient(run: Run, value: Value, node: ast.AST, frame: Frame) -> Value:
    """The gradient of a result: where the result is."""
    tensor = tensor_of(value)
    if tensor is None:
        return Unknown("grad_output")
    return Tensor(tensor.dev, tensor.rank, run.event("gradient", node, frame))


def judge(run: Run, given: Value, args: list[Value], backward: Func, frame: Frame, node: ast.AST) -> None:
    """A gradient must be on the device of the input that it is for."""
    gradients = list(given.items) if isinstance(given, Seq) and given.kind == "tuple" else [given]
    for number, (value, arg) in enumerate(zip(gradients, args, strict=False)):
        tensor = tensor_of(arg)
        if tensor is None:
            continue
        for option in options(value):
            result = tensor_of(option)
            if result is None or result.rank == 0 or not differ(result.dev, tensor.dev):
                continue
            meet.simple(run, "gradient", f"{backward.cls.name if backward.cls else ''}.backward", return_node(backward), frame_of(backward, frame, node),
                        Operand(result, option, None), wanted=tensor.dev, number=number, culprit=result.birth)  # fmt: skip


def return_node(func: Func) -> ast.AST:
    """The last `return` of a function."""
    found: ast.AST = func.node
    for part in ast.walk(func.node):
        if isinstance(part, ast.Return):
            found = part
    return found


def frame_of(func: Func, frame: Frame, node: ast.AST) -> Frame:
    """A frame that stands for `backward`, which autograd calls."""
    inner = Frame(func.module, func, (*frame.stack, frame.site(node)), None, frame.depth + 1)
    inner.cls = func.cls
    return inner


def call_method(
    run: Run, owner: Instance, name: str, args: list[Value], node: ast.AST, frame: Frame
) -> Value:
    """A method of `ctx`."""
    if name == "save_for_backward":
        run.trail.write(owner.cells, "saved_tensors", Seq("tuple", tuple(args)))
        return NONE
    return NONE if name in ("mark_dirty", "mark_non_differentiable", "set_materialize_grads") else Unknown()


__all__ = ["Method", "apply", "apply_of", "call_method", "context"]
