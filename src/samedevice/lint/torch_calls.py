"""Calls of functions and classes of torch, by their name after "torch."."""

import ast
from collections.abc import Callable
from typing import Any

from samedevice.lint import builtin_objects, factories, loaders, meet, methods, modules, saving, tensors
from samedevice.lint.devices import CPU, CUDA, Dev, parse_device, symbol
from samedevice.lint.meet import Operand
from samedevice.lint.run import Frame, Run
from samedevice.lint.state import assemble, compatible, element, options, tagged
from samedevice.lint.tensors import tensor_of
from samedevice.lint.values import (
    ARRAY,
    NO_TAGS,
    NONE,
    NUM,
    UNKNOWN,
    Array,
    Const,
    Device,
    Dict,
    Instance,
    Num,
    Param,
    Seq,
    Tags,
    Tensor,
    Unknown,
    Value,
)
from samedevice.torch_facts import api

Args = list[Value]
Kwargs = dict[str, Value]
Handler = Callable[[Run, str, Args, Kwargs, ast.AST, Frame], Value]


def call(run: Run, name: str, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    """`torch.<name>(...)`."""
    handler = SPECIAL.get(name)
    if handler is not None:
        return handler(run, name, args, kwargs, node, frame)
    if name in api.FACTORIES:
        return factories.factory(run, name, args, kwargs, node, frame, api.FACTORIES[name])
    if name in api.HOST_FACTORIES:
        return factories.factory(run, name, args, kwargs, node, frame, api.HOST_FACTORIES[name], host=True)
    if name.startswith("cuda.") and name[5:] in api.HOST_FACTORIES:
        return run.fresh(CUDA, -1, "factory", node, frame, f"torch.{name}")
    if name in api.LIKE_FACTORIES:
        return factories.like(run, name, args, kwargs, node, frame)
    if name in api.JOINING:
        return joining(run, name, args, kwargs, node, frame)
    if name.startswith("nn.functional."):
        return functional(run, name[14:], args, kwargs, node, frame)
    if name.startswith("nn.utils.rnn."):
        return recurrent_tool(run, name[13:], args, kwargs, node, frame)
    if name.startswith("distributions.") and name.rpartition(".")[2][:1].isupper():
        return builtin_objects.distribution(run, name, args, kwargs, node, frame)
    if name in ("distributions.kl_divergence", "distributions.kl.kl_divergence") and len(args) == 2:
        return builtin_objects.divergence(run, args[0], args[1], node, frame)
    if name.startswith("nn.init."):
        return args[0] if args else Unknown()
    if name.startswith("nn.") and name[3:] in MODULE_CLASSES:
        return modules.construct(run, name[3:], args, kwargs, node, frame)
    if name.startswith("optim.") and name[6:] in api.OPTIMIZERS:
        return builtin_objects.optimizer(run, name[6:], args, kwargs, node, frame)
    if name.startswith("distributed."):
        collective(run, name[12:], args, kwargs, node, frame)
    if name.startswith(("cuda.", "backends.", "distributed.", "random.", "autograd.", "profiler.", "utils.")):
        for prefix in ("cuda.", "backends.", "distributed.", "autograd."):
            if name.startswith(prefix) and name.rpartition(".")[2] in QUIET:
                return NUM
        from samedevice.lint import calls

        if name in ("autograd.grad",):
            return gradients(args, kwargs)
        return calls.unknown_call(run, Unknown(f"torch.{name}"), args, kwargs, node, frame)
    first = args[0] if args else kwargs.get("input", UNKNOWN)
    if name.startswith(("special.", "sparse.")):
        name = name.partition(".")[2]
    found: list[tuple[Value, Tags]] = []
    others = {k: v for k, v in kwargs.items() if k != "input"}
    for option, tags in tagged(first):
        rest = [compatible(a, tags) for a in args[1:]]
        named = {k: compatible(v, tags) for k, v in others.items()}
        value = methods.follow(run, name, option, rest, named, node, frame, False)
        found.extend((one, tags | more) for one, more in tagged(value))
    if not tensors_in(first):
        second = next((o for a in args[1:] for o in options(a) if tensor_of(o) is not None), None)
        if second is not None and (name in api.ITERATOR or name in api.STRICT):
            operands = methods.operands_of(run, name, None, args, kwargs, node)
            family = "iterator" if name in api.ITERATOR else "strict"
            return tensors.check(run, family, node, f"torch.{name}", operands, frame)
        if name in api.TO_HOST:
            return NUM
    return assemble(found)


def tensors_in(value: Value) -> bool:
    return any(tensor_of(o) is not None for o in options(value))


MODULE_CLASSES = (
    frozenset(api.PARAMETERS) | frozenset(api.LOSS_MODULES) | api.STATELESS | api.CONTAINERS
    | {"Module", "DataParallel", "parallel.DistributedDataParallel"}
)  # fmt: skip

QUIET = frozenset(
    "synchronize empty_cache manual_seed manual_seed_all memory_allocated max_memory_allocated reset_peak_memory_stats get_rank "
    "get_world_size barrier init_process_group destroy_process_group set_detect_anomaly ipc_collect memory_reserved is_initialized "
    "get_device_name get_device_properties is_bf16_supported mem_get_info".split()
)


#: collectives and which argument is the tensor
COLLECTIVES = {
    "all_reduce": 0,
    "broadcast": 0,
    "reduce": 0,
    "all_gather_into_tensor": 1,
    "all_gather": 1,
    "gather": 0,
    "send": 0,
    "recv": 0,
}


def collective(run: Run, name: str, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> None:
    """NCCL works on GPU tensors only."""
    if name == "init_process_group":
        backend = kwargs.get("backend", args[0] if args else None)
        run.backend = backend.value if isinstance(backend, Const) else None
    elif name in COLLECTIVES and run.backend == "nccl":
        index = COLLECTIVES[name]
        value = kwargs.get("tensor", args[index] if len(args) > index else UNKNOWN)
        tensor = tensor_of(value)
        if tensor is not None and tensor.dev is not None and tensor.dev.is_cpu:
            meet.simple(
                run,
                "collective",
                f"dist.{name}",
                node,
                frame,
                Operand(tensor, value, methods.argument_node(node, index)),
                wanted=CUDA,
            )


def joining(run: Run, name: str, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    """`torch.cat` and its kin."""
    source = args[0] if args else kwargs.get("tensors", UNKNOWN)
    if name in ("meshgrid", "block_diag", "cartesian_prod") and not isinstance(source, Seq):
        source = Seq("tuple", tuple(args))
    found: list[Operand] = []
    parts: list[Value] = []
    whole = methods.argument_node(node, 0)
    for container in options(source):
        if isinstance(container, Seq):
            parts.extend(container.items)
            if container.rest is not None:
                parts.append(container.rest)
    nodes: list[Any] = (
        list(whole.elts)
        if isinstance(whole, ast.List | ast.Tuple) and len(whole.elts) == len(parts)
        else [None] * len(parts)
    )
    for part, part_node in zip(parts, nodes, strict=True):
        for option, tags in tagged(part):
            tensor = tensor_of(option)
            if tensor is None:
                continue
            # an item written out is one tensor; one of a list built elsewhere stands for many
            found.append(
                Operand(tensor, option, part_node or whole, "", tags if part_node is not None else NO_TAGS)
            )
    if not found:
        return Unknown()
    result = tensors.check(run, "strict", node, f"torch.{name}", found, frame)
    assert isinstance(result, Tensor)
    result = result.derive(-1)
    if name in ("meshgrid",):
        return Seq("tuple", (), result)
    return result


def functional(run: Run, name: str, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    """`torch.nn.functional.<name>`."""
    found = methods.operands_of(run, name, None, args, kwargs, node)
    if name in api.LOSSES or name in api.FUNCTIONAL_STRICT:
        if not found:
            return Unknown()
        result = (
            tensors.check(run, "strict", node, f"F.{name}", found, frame)
            if len(found) > 1
            else tensors.combine(found)
        )
        assert isinstance(result, Tensor)
        if name in api.LOSSES:
            reduction = kwargs.get("reduction")
            output = result.derive(
                None
                if reduction is not None
                and not (isinstance(reduction, Const) and reduction.value in ("mean", "sum"))
                else 0
            )
            if isinstance(reduction, Const) and reduction.value == "none":
                output.rank = -1
            output.batch = output.bound = None
            return output
        output = result.derive(-1)
        output.batch = None
        return output
    first = args[0] if args else kwargs.get("input", UNKNOWN)
    return methods.follow(run, name, first, args[1:], kwargs, node, frame, False)


def recurrent_tool(run: Run, name: str, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    """`torch.nn.utils.rnn`: lengths belong on the CPU."""
    if name == "pack_padded_sequence":
        lengths = args[1] if len(args) > 1 else kwargs.get("lengths", UNKNOWN)
        for option in options(lengths):
            tensor = tensor_of(option)
            if (
                tensor is not None
                and tensor.dev is not None
                and (tensor.dev.is_gpu or (tensor.dev.is_symbol and tensor.moved is not None))
            ):
                meet.simple(
                    run,
                    "lengths",
                    "pack_padded_sequence",
                    node,
                    frame,
                    Operand(
                        tensor,
                        option,
                        methods.argument_node(node, 1) or methods.argument_node(node, 0, "lengths"),
                    ),
                )
        tensor = tensor_of(args[0]) if args else None
        return tensor.derive(-1) if tensor is not None else Unknown()
    if name in ("pad_sequence", "pack_sequence"):
        return joining(run, "stack", args, kwargs, node, frame)
    if name == "pad_packed_sequence":
        tensor = tensor_of(args[0]) if args else None
        if tensor is not None:
            return Seq(
                "tuple", (tensor.derive(-1), run.fresh(CPU, 1, "lengths", node, frame, "pad_packed_sequence"))
            )
    return Unknown()


def gradients(args: Args, kwargs: Kwargs) -> Value:
    """`torch.autograd.grad`: one gradient for each input, where the input is."""
    inputs = args[1] if len(args) > 1 else kwargs.get("inputs", UNKNOWN)
    if isinstance(inputs, Seq):
        return Seq(
            "tuple",
            tuple(t.derive(t.rank) if (t := tensor_of(i)) is not None else Unknown() for i in inputs.items),
            inputs.rest,
        )
    tensor = tensor_of(inputs)
    return Seq("tuple", (tensor.derive(tensor.rank),)) if tensor is not None else Unknown()


def make_device(run: Run, name: str, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    """`torch.device(...)`."""
    if not args:
        return Device(symbol(("device", id(node)), "device"), frame.site(node))
    value = args[0]
    if isinstance(value, Const) and isinstance(value.value, str):
        dev = parse_device(value.value)
        if dev is None:
            return UNKNOWN
        if len(args) > 1:
            index = args[1]
            dev = (
                Dev(dev.type, index.value)
                if isinstance(index, Const) and isinstance(index.value, int)
                else Dev("?", None, ("index", id(index)), f"{dev.type}:…")
            )
        return Device(dev, value.site or frame.site(node), value.default)
    if isinstance(value, Const) and isinstance(value.value, int):
        return Device(Dev("cuda", value.value), frame.site(node))
    if isinstance(value, Device):
        return value
    if isinstance(value, Unknown):
        shown = value.name or "device"
        return Device(
            symbol(value if value is not UNKNOWN else ("device", id(node)), shown), frame.site(node)
        )
    if isinstance(value, Num):
        return Device(symbol(("device", value.tag or id(node)), "device"), frame.site(node))
    found = [make_device(run, name, [o], {}, node, frame) for o in options(value)]
    from samedevice.lint.state import join

    result = found[0]
    for other in found[1:]:
        result = join(result, other, False)
    return result


def set_default(run: Run, name: str, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    """`torch.set_default_device` and `set_default_tensor_type`."""
    value = args[0] if args else UNKNOWN
    if name == "set_default_device":
        run.default = tensors.device_value(value, frame)
        if isinstance(value, Const) and value.value is None:
            run.default = Device(CPU)
    else:
        text = value.value if isinstance(value, Const) else ast.unparse(node)
        run.default = Device(CUDA) if "cuda" in str(text) else run.default
    run.default_named = run.event("default", node, frame, name)
    return NONE


def trace(run: Run, name: str, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    """`torch.jit.trace(model, example)`."""
    from samedevice.lint import calls

    model = args[0] if args else UNKNOWN
    if not isinstance(model, Instance) or not modules.is_module(model):
        return Unknown()
    example = args[1] if len(args) > 1 else kwargs.get("example_inputs", UNKNOWN)
    inputs = list(example.items) if isinstance(example, Seq) and example.kind == "tuple" else [example]
    run.tracing.append([])
    try:
        calls.call(run, model, inputs, {}, node, frame)
    finally:
        baked = run.tracing.pop()
    traced = Instance(None, "torch.jit.traced", run.event("created", node, frame, "torch.jit.trace"))
    modules.begin(run, traced)
    traced.cells["#module"] = model
    traced.cells["#baked"] = baked[0] if baked else None
    known = modules.device_of(model)
    if known is None:
        known = next((t.dev for value in inputs if (t := tensor_of(value)) is not None), None)
    traced.cells["#device"] = known
    return traced


def parameter(run: Run, name: str, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    """`nn.Parameter(data)`."""
    source = args[0] if args else kwargs.get("data", UNKNOWN)
    tensor = next((t for o in options(source) if (t := tensor_of(o)) is not None), None)
    held = (
        tensor.copy()
        if tensor is not None
        else Tensor(None, None, run.event("parameter", node, frame, "nn.Parameter"))
    )
    held.held = None
    if held.birth is None:
        held.birth = run.event("parameter", node, frame, "nn.Parameter")
    return Param(held)


def buffer(run: Run, name: str, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    """`nn.Buffer(data)`."""
    tensor = tensor_of(args[0]) if args else None
    if tensor is None:
        return Unknown()
    held = tensor.copy()
    held.buffer = "Buffer"
    return held


def generator(run: Run, name: str, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    """`torch.Generator(device)`: the CPU's unless it is told otherwise, whatever the default device is."""
    made = Instance(None, "torch.Generator", run.event("created", node, frame, "torch.Generator"))
    value = args[0] if args else kwargs.get("device")
    device = (
        Device(CPU)
        if value is None or (isinstance(value, Const) and value.value is None)
        else tensors.device_value(value, frame)
    )
    made.cells["#device"] = device if device is not None else UNKNOWN
    return made


def dataset(run: Run, name: str, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    """`TensorDataset`, `Subset` and their kin."""
    made = Instance(None, "torch." + name, run.event("created", node, frame, name))
    if name.endswith("TensorDataset"):
        made.cells["#tensors"] = tuple(args)
    else:
        first = args[0] if args else UNKNOWN
        made.cells["#dataset"] = element(first) if isinstance(first, Seq) else first
    return made


def random_split(run: Run, name: str, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    """`random_split(dataset, lengths)`."""
    loaders.sampler(run, name, args, kwargs, node, frame)
    part = dataset(run, "utils.data.Subset", args[:1], {}, node, frame)
    lengths = args[1] if len(args) > 1 else kwargs.get("lengths", UNKNOWN)
    if isinstance(lengths, Seq) and lengths.rest is None:
        return Seq("list", tuple(part for _ in lengths.items))
    return Seq("list", (), part)


def is_tensor(run: Run, name: str, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    """`torch.is_tensor`."""
    value = args[0] if args else UNKNOWN
    tensor = tensor_of(value)
    if tensor is not None:
        return NUM if tensor.maybe else Const(True)
    return Const(False) if isinstance(value, Seq | Dict | Const | Num | Array) else NUM


def constant(value: Value) -> Handler:
    """A handler that always gives `value`."""
    return lambda run, name, args, kwargs, node, frame: value


def context(run: Run, name: str, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    """A context manager that leaves devices alone."""
    value = Unknown("context")
    value.tags = frozenset({"quiet"})
    return value


def cuda_set_device(run: Run, name: str, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    """`torch.cuda.set_device`."""
    run.current_chosen = True
    return NONE


def passed(run: Run, name: str, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    """A wrapper that computes the same (`torch.compile`, `torch.jit.script`)."""
    return args[0] if args else Unknown()


def scaler(run: Run, name: str, args: Args, kwargs: Kwargs, node: ast.AST, frame: Frame) -> Value:
    return Instance(None, "torch.amp.GradScaler", None)


SPECIAL: dict[str, Handler] = {
    "device": make_device,
    "cuda.is_available": constant(Const(True)),
    "cuda.device_count": constant(Num("gpus")),
    "cuda.current_device": constant(Device(CUDA)),
    "accelerator.is_available": constant(Const(True)),
    "accelerator.current_accelerator": constant(Device(CUDA)),
    "backends.mps.is_available": constant(Const(False)),
    "backends.mps.is_built": constant(Const(False)),
    "mps.is_available": constant(Const(False)),
    "xpu.is_available": constant(Const(False)),
    "cuda.set_device": cuda_set_device,
    "set_default_device": set_default,
    "set_default_tensor_type": set_default,
    "load": saving.load,
    "save": saving.save,
    "jit.trace": trace,
    "jit.script": passed,
    "compile": passed,
    "nn.Parameter": parameter,
    "nn.Buffer": buffer,
    "Generator": generator,
    "utils.data.DataLoader": lambda run, name, args, kwargs, node, frame: loaders.make_loader(run, args, kwargs, node, frame),
    "utils.data.TensorDataset": dataset,
    "utils.data.Subset": dataset,
    "utils.data.ConcatDataset": dataset,
    "utils.data.random_split": random_split,
    **dict.fromkeys(("utils.data.RandomSampler", "utils.data.WeightedRandomSampler", "utils.data.SubsetRandomSampler"), loaders.sampler),
    "amp.GradScaler": scaler,
    "cuda.amp.GradScaler": scaler,
    "is_tensor": is_tensor,
    "nn.Transformer.generate_square_subsequent_mask": lambda run, name, args, kwargs, node, frame: factories.factory(
        run, name, [], kwargs, node, frame, 2
    ),
    "manual_seed": constant(Unknown("generator")),
    **dict.fromkeys(("is_floating_point", "is_grad_enabled", "set_printoptions", "set_num_threads", "numel"), constant(NUM)),
    **dict.fromkeys(
        ("no_grad", "enable_grad", "inference_mode", "autocast", "amp.autocast", "cuda.amp.autocast", "set_grad_enabled",
         "autograd.set_detect_anomaly", "autograd.no_grad", "random.fork_rng", "autograd.profiler.profile", "profiler.profile",
         "autograd.profiler.record_function", "profiler.record_function", "cuda.nvtx.range", "autograd.graph.save_on_cpu"),
        context,
    ),
}  # fmt: skip
__all__ = ["ARRAY", "call"]
