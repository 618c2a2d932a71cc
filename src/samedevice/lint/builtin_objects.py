"""Objects of installed packages that the analysis knows: optimizers, generators, loaders, datasets."""

import ast
from typing import Any

from samedevice.lint import autograd, loaders, meet, module_methods, modules, tensors
from samedevice.lint.devices import differ
from samedevice.lint.meet import Operand
from samedevice.lint.run import Frame, Run
from samedevice.lint.state import element, options
from samedevice.lint.tensors import tensor_of
from samedevice.lint.values import (
    NONE,
    NUM,
    REST,
    UNKNOWN,
    Const,
    Device,
    Dict,
    Instance,
    Method,
    Param,
    Seq,
    Tensor,
    Unknown,
    Value,
)
from samedevice.torch_facts import api

Args = list[Value]
Kwargs = dict[str, Value]

METRICS = frozenset(
    "Accuracy AUROC AveragePrecision ConfusionMatrix F1Score FBetaScore JaccardIndex MatthewsCorrCoef Precision Recall "
    "Specificity MeanSquaredError MeanAbsoluteError R2Score CohenKappa Dice ExactMatch HammingDistance".split()
)


def construct(run: Run, name: str, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value | None:
    """An object of another package, None when it is none that we know."""
    if name.startswith("torchmetrics."):
        last = name.rpartition(".")[2]
        bare = last.removeprefix("Multiclass").removeprefix("Binary").removeprefix("Multilabel")
        if bare in METRICS and ".functional" not in name:
            instance = Instance(None, "torchmetrics." + last, run.event("created", node, frame, last))
            modules.begin(run, instance)
            tensor = Tensor(
                run.default.dev if run.default is not None else None,
                -1,
                run.event("parameter", node, frame, "state", extra=instance),
            )
            tensor.buffer, tensor.module = "state", instance
            instance.cells["state"] = tensor
            instance.cells["#reg"] = {"state": "buffer"}
            return instance
    if name.startswith(("torchvision.datasets.",)):
        last = name.rpartition(".")[2]
        if last in api.IMAGE_DATASETS:
            return Instance(None, "torchvision.datasets", run.event("created", node, frame, last))
    if name.startswith("dataclasses.field"):
        field = Instance(None, "dataclasses.field", None)
        if "default_factory" in kwargs:
            field.cells["#factory"] = kwargs["default_factory"]
        field.cells["#default"] = kwargs.get("default", Unknown())
        return field
    return None


def distribution(run: Run, name: str, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    """`torch.distributions.<name>(...)`: samples are where the parameters are."""
    made = Instance(None, "torch.distributions", run.event("created", node, frame, name))
    made.cells["#tensors"] = tuple(t for a in (*args, *kwargs.values()) for t in parameters_of(a))
    return made


def parameters_of(value: Value) -> list[Tensor]:
    """The tensors that an argument of a distribution brings: itself, or those of a distribution inside."""
    found: list[Tensor] = []
    for option in options(value):
        tensor = tensor_of(option)
        if tensor is not None:
            found.append(tensor)
        elif isinstance(option, Instance) and option.builtin == "torch.distributions":
            found += held_by(option)
    return found


def held_by(made: Instance) -> tuple[Tensor, ...]:
    """A distribution's parameters; none when the program has put others in their place."""
    changed = any(not str(name).startswith("#") for name in made.cells)
    return () if changed else made.cells.get("#tensors") or ()


def divergence(run: Run, one: Value, other: Value, node: ast.AST, frame: Frame) -> Value:
    """`kl_divergence(p, q)`: the parameters of both meet."""
    if not (is_distribution(one) and is_distribution(other)):
        return Unknown()
    return among(run, [*parameters_of(one), *parameters_of(other)], "kl_divergence", node, frame)


def is_distribution(value: Value) -> bool:
    """Whether it is certainly a distribution of torch."""
    return isinstance(value, Instance) and value.builtin == "torch.distributions"


def among(run: Run, found: list[Tensor], operator: str, node: ast.AST, frame: Frame) -> Value:
    """The result of what computes with all of some tensors."""
    if not found:
        return Unknown()
    return tensors.check(
        run, "iterator", node, f"torch.distributions.{operator}", [Operand(t, t, None) for t in found], frame
    )


def distribution_method(
    run: Run, owner: Instance, name: str, args: Args, node: ast.AST, frame: Frame
) -> Value:
    """`sample`, `log_prob` and the like."""
    held = held_by(owner)
    known = [t for t in held if t.dev is not None and not t.dev.is_cpu] or list(held)
    if not known or name not in (
        "sample",
        "rsample",
        "log_prob",
        "entropy",
        "cdf",
        "icdf",
        "mean",
        "stddev",
        "variance",
        "mode",
        "probs",
        "logits",
    ):
        return Unknown()
    given = tensor_of(args[0]) if args else None
    if given is not None and name in ("log_prob", "cdf", "icdf"):
        return among(run, [*held, given], name, node, frame)
    result = known[0].derive(-1)
    if name in ("sample", "rsample"):
        result.batch = None
    return result


def optimizer(run: Run, name: str, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    """`torch.optim.<name>(params, ...)`."""
    instance = Instance(None, "torch.optim." + name, run.event("created", node, frame, name))
    source = args[0] if args else kwargs.get("params", UNKNOWN)
    params = [v for v in flat_parameters(source) if isinstance(v, Param)]
    instance.cells["#params"] = tuple(params)
    momentum = kwargs.get("momentum", args[2] if len(args) > 2 and name == "SGD" else None)
    stateful = name != "SGD" or (
        momentum is not None and not (isinstance(momentum, Const) and not momentum.value)
    )
    instance.cells["#stateful"] = stateful
    if name in api.EAGER_STATE:
        instance.cells["#state"] = tuple(p.tensor.dev for p in params)
        instance.cells["#state-event"] = run.event("state", node, frame, name)
    return instance


def parameter_groups(owner: Instance) -> Value:
    """`optimizer.param_groups`: one of the parameters stands for all, if they are on one device."""
    params: tuple[Param, ...] = owner.cells.get("#params") or ()
    group = Dict()
    group.cells[REST] = Unknown()
    if params and all(p.tensor.dev == params[0].tensor.dev for p in params):
        group.cells["params"] = Seq("list", (), params[0])
    return Seq("list", (), group)


def flat_parameters(value: Value, depth: int = 3) -> list[Value]:
    """The parameters in what an optimizer is given."""
    if isinstance(value, Param):
        return [value]
    if depth == 0:
        return []
    if isinstance(value, Seq):
        parts = [*value.items, *([value.rest] if value.rest is not None else [])]
        return [p for part in parts for p in flat_parameters(part, depth - 1)]
    if isinstance(value, Dict):
        held = value.cells.get("params")
        return flat_parameters(held, depth - 1) if held is not None else []
    return []


def get_attribute(run: Run, owner: Instance, name: str) -> Value | None:
    """An attribute of a known object."""
    kind = owner.builtin or ""
    if kind.startswith("torch.optim.") and name == "state":
        state = Instance(None, "#optimizer-state", None)
        state.cells["#optimizer"] = owner
        return state
    if kind.startswith("torch.optim.") and name == "param_groups":
        return parameter_groups(owner)
    if kind == "torch.utils.data.DataLoader":
        if name == "dataset":
            found: Value = owner.cells.get("#dataset", UNKNOWN)
            return found
        return None
    if kind == "torch.utils.data.TensorDataset" and name == "tensors":
        return Seq("tuple", tuple(owner.cells.get("#tensors", ())))
    if kind == "torch.distributions":
        return (
            Method(owner, name)
            if name not in ("mean", "stddev", "variance", "mode", "probs", "logits")
            else Unknown(name)
        )
    if kind == "torch.Generator" and name == "device":
        device: Value = owner.cells.get("#device", UNKNOWN)
        return device
    if kind == "torch.autograd.ctx" and name in (
        "save_for_backward",
        "mark_non_differentiable",
        "set_materialize_grads",
        "mark_dirty",
    ):
        return Method(owner, name)
    if kind == "torch.autograd.ctx" and name == "needs_input_grad":
        return Seq("tuple", (), NUM)
    if kind.startswith(("torch.optim.", "torch.Generator", "torch.utils.data.", "#", "torch.amp.")):
        return Method(owner, name)
    return None


def call_method(
    run: Run, owner: Instance, name: str, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame
) -> Value:
    """A method of a known object, or of `nn.Module`."""
    kind = owner.builtin or ""
    if kind == "torch.jit.traced" and name in ("to", "cuda"):
        traced_move(run, owner, name, args, kwargs, node, frame)
        return owner
    if kind.startswith("torchmetrics.") and name in ("update", "forward", "__call__"):
        return metric(run, owner, args, kwargs, node, frame)
    if modules.is_module(owner):
        return module_methods.call(run, owner, name, args, kwargs, node, frame)
    if kind.startswith("torch.optim."):
        return optimizer_method(run, owner, name, args, node, frame)
    if kind == "torch.distributions":
        return distribution_method(run, owner, name, args, node, frame)
    if kind == "torch.Generator":
        return owner if name == "manual_seed" else NUM
    if kind == "torch.autograd.ctx":
        return autograd.call_method(run, owner, name, args, node, frame)
    if kind == "torch.amp.GradScaler":
        if name == "scale" and args:
            return args[0]
        if name == "step" and args and isinstance(args[0], Instance):
            return call_method(run, args[0], "step", [], {}, node, frame)
        return NONE
    if name == "__init__":
        return NONE
    if kind == "#optimizer-state" and name in ("values", "items", "get", "keys"):
        return Unknown()
    from samedevice.lint import calls

    if owner.cls is not None:
        return Unknown()
    return calls.unknown_call(run, Unknown(name), args, kwargs, node, frame)


def traced_move(
    run: Run, owner: Instance, name: str, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame
) -> None:
    """Moving a traced module: what the trace baked in stays."""
    from samedevice.lint.methods import cuda_device

    device = (
        cuda_device(args[0] if args else None, node, frame)
        if name == "cuda"
        else tensors.move_target(args, kwargs, frame)[1]
    )
    baked = owner.cells.get("#baked")
    made = owner.cells.get("#device")
    if device is not None and baked is not None and differ(made, device.dev):
        meet.simple(
            run,
            "traced",
            "torch.jit.trace",
            node,
            frame,
            None,
            traced=owner.birth,
            baked=baked,
            wanted=device.dev,
            culprit=owner.birth,
        )
    model = owner.cells.get("#module")
    if isinstance(model, Instance):
        modules.move(run, model, device, node, frame, name)


def metric(run: Run, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    """Updating a torchmetrics metric with predictions."""
    from samedevice.lint.methods import operands_of
    from samedevice.lint.tensors import check

    state = owner.cells.get("state")
    found = operands_of(run, "", None, args, kwargs, node)
    if isinstance(state, Tensor) and found:
        found.append(Operand(state, Param(state, "state", owner), getattr(node, "func", None), "state"))
        check(
            run,
            "strict",
            node,
            ast.unparse(node.func) if isinstance(node, ast.Call) else "update",
            found,
            frame,
        )
    return Unknown()


def optimizer_method(run: Run, owner: Instance, name: str, args: Args, node: ast.AST, frame: Frame) -> Value:
    """`step`, `load_state_dict`, … of an optimizer."""
    params: tuple[Param, ...] = owner.cells.get("#params") or ()
    if name == "step":
        sanity(run, owner, args, node, frame)
        states: tuple[Any, ...] | None = owner.cells.get("#state")
        if states is not None:
            for param, dev in zip(params, states, strict=False):
                if differ(dev, param.tensor.dev):
                    meet.simple(run, "optimizer", f"{owner.class_name}.step", node, frame, Operand(param.tensor, param, None),
                                state=owner.cells.get("#state-event"), optimizer=owner, was=dev, wanted=param.tensor.dev,
                                culprit=owner.birth)  # fmt: skip
                    break
        elif owner.cells.get("#stateful"):
            run.trail.write(owner.cells, "#state", tuple(p.tensor.dev for p in params))
            run.trail.write(owner.cells, "#state-event", run.event("state", node, frame, "step"))
    elif name == "load_state_dict":
        run.trail.write(owner.cells, "#state", tuple(p.tensor.dev for p in params))
        run.trail.write(owner.cells, "#state-event", run.event("state", node, frame, "load_state_dict"))
    elif name == "add_param_group" and args:
        more = tuple(p for p in flat_parameters(args[0]) if isinstance(p, Param))
        run.trail.write(owner.cells, "#params", (*params, *more))
    elif name == "state_dict":
        return Unknown()
    return NONE


def sanity(run: Run, owner: Instance, args: Args, node: ast.AST, frame: Frame) -> None:
    """A step needs gradients, and gradients need to be cleared; said only where the whole program is at hand."""
    if run.entry or args or not run.loads or owner.class_name == "LBFGS":
        return
    texts = [run.file.text, *(m.file.text for m in run.modules.values() if m.state != "new")]
    if any(m.state == "opaque" for m in run.modules.values()):
        return
    if not any("backward(" in t or "autograd" in t or ".grad" in t for t in texts):
        meet.simple(run, "no-backward", "step", node, frame, None)
    elif run.repeats and not any(
        "zero_grad" in t or ".grad = None" in t or "set_to_none" in t or ".grad" in t.replace(".grad_", "")
        for t in texts
    ):
        meet.simple(run, "no-zero-grad", "step", node, frame, None)


def set_item(
    run: Run, owner: Instance, key: Value, value: Value, target: ast.Subscript, frame: Frame
) -> None:
    """`object[key] = value` for known objects."""
    if owner.builtin == "#parameter-state":
        param = owner.cells.get("#param")
        stored = tensor_of(value)
        if isinstance(key, Const) and key.value == "step":
            return
        if (
            isinstance(param, Param)
            and stored is not None
            and stored.rank != 0
            and differ(stored.dev, param.tensor.dev)
        ):
            meet.simple(
                run,
                "optimizer-item",
                "optimizer.state",
                target,
                frame,
                Operand(stored, value, None),
                wanted=param.tensor.dev,
                param=param,
                culprit=stored.birth,
            )
    elif owner.builtin == "#optimizer-state":
        param_value = next((o for o in options(key) if isinstance(o, Param)), None)
        if param_value is None or not isinstance(value, Dict):
            return
        for name, item in value.cells.items():
            stored = tensor_of(item) if isinstance(item, Value) else None
            if name == "step" or stored is None or stored.rank == 0:
                continue
            if differ(stored.dev, param_value.tensor.dev):
                meet.simple(
                    run,
                    "optimizer-item",
                    "optimizer.state",
                    target,
                    frame,
                    Operand(stored, item, None),
                    wanted=param_value.tensor.dev,
                    param=param_value,
                    culprit=stored.birth,
                )


def get_item(run: Run, owner: Instance, key: Value, node: ast.AST, frame: Frame) -> Value:
    """`object[key]` for known objects and module containers."""
    if owner.builtin == "#optimizer-state":
        state = Instance(None, "#parameter-state", None)
        state.cells["#param"] = next((o for o in options(key) if isinstance(o, Param)), UNKNOWN)
        state.cells["#optimizer"] = owner.cells.get("#optimizer", UNKNOWN)
        return state
    if owner.builtin == "#parameter-state":
        param = owner.cells.get("#param")
        if isinstance(param, Param):
            tensor = param.tensor.derive(param.tensor.rank)
            tensor.birth = run.event("derived", node, frame, "state")
            return tensor
        return Unknown()
    if modules.is_module(owner):
        table = owner.cells.get("#dict")
        if isinstance(table, Dict):
            if isinstance(key, Const) and key.value in table.cells:
                found: Value = table.cells[key.value]
                return found
            return element(table)
        items: tuple[Value, ...] = owner.cells.get("#items") or ()
        rest: Value | None = owner.cells.get("#rest")
        if (
            isinstance(key, Const)
            and isinstance(key.value, int)
            and -len(items) <= key.value < len(items)
            and rest is None
        ):
            return items[key.value]
        return element(Seq("list", items, rest))
    if owner.builtin is not None and owner.builtin.startswith(("torch.utils.data.", "torchvision.")):
        return loaders.sample_of(run, owner, node, frame)
    return Unknown()


def call_object(run: Run, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    """`object(...)`."""
    from samedevice.lint import calls

    return calls.unknown_call(run, Unknown(owner.class_name), args, kwargs, node, frame)


__all__ = ["Device", "call_method", "construct", "get_attribute"]
