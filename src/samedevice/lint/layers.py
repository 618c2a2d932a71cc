"""Calling the layers, losses and containers of torch.nn."""

import ast

from samedevice.lint import methods
from samedevice.lint.meet import Operand
from samedevice.lint.modules import base_builtin, own_tensors
from samedevice.lint.run import Frame, Run
from samedevice.lint.tensors import check, combine, tensor_of
from samedevice.lint.values import Const, Instance, Param, Seq, Tensor, Unknown, Value
from samedevice.torch_facts import api

RECURRENT = frozenset(("RNN", "LSTM", "GRU"))
CELLS = frozenset(("RNNCell", "GRUCell"))


def callee(node: ast.AST) -> ast.AST | None:
    """The expression that is called."""
    return node.func if isinstance(node, ast.Call) else None


def operands(run: Run, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> list[Operand]:
    """The tensors among the arguments, those in a tuple (an LSTM's state) included."""
    found = methods.operands_of(run, "", None, args, kwargs, node)
    for index, arg in enumerate(args[1:2], 1):
        if isinstance(arg, Seq) and arg.kind == "tuple":
            for item in arg.items:
                tensor = tensor_of(item)
                if tensor is not None:
                    found.append(Operand(tensor, item, methods.argument_node(node, index)))
    return found


def forward(
    run: Run, instance: Instance, args: list[Value], kwargs: dict[str, Value], node: ast.AST, frame: Frame
) -> Value:
    """The result of a builtin module's `forward`."""
    from samedevice.lint import calls

    name = base_builtin(instance) or ""
    if name == "Sequential":
        value: Value = args[0] if args else Unknown()
        items = list(instance.cells.get("#items") or ())
        rest = instance.cells.get("#rest")
        added = [
            instance.cells[n] for n, kind in (instance.cells.get("#reg") or {}).items() if kind == "module"
        ]
        for item in [*items, *([rest] if rest is not None else []), *added]:
            value = calls.call(run, item, [value], {}, node, frame)
        return value
    if name in ("ModuleList", "ModuleDict"):
        return Unknown()
    if name in api.LOSS_MODULES:
        return loss(run, instance, args, kwargs, node, frame)
    found = operands(run, args, kwargs, node)
    registered = [(n, v) for n, v in own_tensors(instance)]
    if name.startswith("torchmetrics."):
        return Unknown()
    if not registered:
        if name in api.STATELESS and found:
            return combine(found)
        return Unknown()
    label = ast.unparse(node.func) if isinstance(node, ast.Call) else name
    for parameter, value in registered[:1]:
        tensor = tensor_of(value)
        assert tensor is not None
        found.append(Operand(tensor, value, callee(node), parameter))
    result = check(run, "strict", node, label, found, frame)
    own = tensor_of(registered[0][1])
    assert isinstance(result, Tensor) and own is not None
    base = result if result.dev is not None else own
    output = base.derive(-1)
    output.batch = output.held = output.bound = output.lost = output.missed = None
    output.moved = None
    output.birth = run.event("parameter", node, frame, label, extra=instance)
    output.choice = own.choice
    if name in RECURRENT:
        state: Value = output.derive(3)
        if name == "LSTM":
            state = Seq("tuple", (output.derive(3), output.derive(3)))
        return Seq("tuple", (output, state))
    if name == "LSTMCell":
        return Seq("tuple", (output, output.derive(2)))
    if name == "MultiheadAttention":
        return Seq("tuple", (output, output.derive(3)))
    return output


def loss(
    run: Run, instance: Instance, args: list[Value], kwargs: dict[str, Value], node: ast.AST, frame: Frame
) -> Value:
    """A loss: input, target and the weight that it holds."""
    found = operands(run, args, kwargs, node)
    for parameter, value in own_tensors(instance):
        tensor = tensor_of(value)
        if tensor is not None:
            holder: Value = value
            if isinstance(value, Tensor):
                holder = Param(value, parameter, instance)
            found.append(Operand(tensor, holder, callee(node), parameter))
    if not found:
        return Unknown()
    label = ast.unparse(node.func) if isinstance(node, ast.Call) else instance.class_name
    result = check(run, "strict", node, label, found, frame) if len(found) > 1 else combine(found)
    assert isinstance(result, Tensor)
    reduction = instance.cells.get("#reduction")
    output = result.derive(None if isinstance(reduction, Const) and reduction.value == "none" else 0)
    output.batch = output.bound = None
    return output
