"""DataLoaders and datasets: what a batch is made of, and where it is."""

import ast
from typing import Final

from samedevice.lint import meet
from samedevice.lint.devices import CPU
from samedevice.lint.meet import Operand
from samedevice.lint.run import Frame, Run
from samedevice.lint.state import element, join, leaves
from samedevice.lint.tensors import tensor_of
from samedevice.lint.values import (
    NUM,
    REST,
    UNKNOWN,
    Alts,
    Array,
    Const,
    Device,
    Dict,
    Event,
    Func,
    Instance,
    Num,
    Param,
    Seq,
    Tensor,
    Unknown,
    Value,
)
from samedevice.source.edits import Text

LOADER = "torch.utils.data.DataLoader"


def make_loader(run: Run, args: list[Value], kwargs: dict[str, Value], node: ast.AST, frame: Frame) -> Value:
    """`DataLoader(dataset, …)`."""
    names = (
        "dataset",
        "batch_size",
        "shuffle",
        "sampler",
        "batch_sampler",
        "num_workers",
        "collate_fn",
        "pin_memory",
    )
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    loader = Instance(None, LOADER, run.event("created", node, frame, "DataLoader"))
    loader.cells["#dataset"] = given.get("dataset", UNKNOWN)
    loader.cells["#given"] = {k: v for k, v in given.items() if k not in ("*",)}
    drawn_on_host(run, given.get("generator"), node, frame)
    default = run.default
    shuffle = given.get("shuffle")
    if (
        default is not None
        and default.dev.is_gpu
        and isinstance(shuffle, Const)
        and shuffle.value is True
        and "generator" not in given
        and "sampler" not in given
        and "**" not in given
    ):
        meet.simple(
            run,
            "default-generator",
            "DataLoader",
            node,
            frame,
            None,
            default=run.default_named,
            wanted=default.dev,
            culprit=loader.birth,
        )
    return loader


#: samplers and their kin → at which place they take their generator
SAMPLERS: Final = {
    "utils.data.RandomSampler": 3,
    "utils.data.WeightedRandomSampler": 3,
    "utils.data.SubsetRandomSampler": 1,
    "utils.data.random_split": 2,
}


def drawn_on_host(run: Run, generator: Value | None, node: ast.AST, frame: Frame) -> None:
    """Loaders and samplers draw on the CPU unless the default device is another, whatever the data is for."""
    from samedevice.lint.methods import generator_check

    if run.default is not None and run.default.dev.is_cpu:
        generator_check(run, generator, CPU, node, frame)


def sampler(
    run: Run, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST, frame: Frame
) -> Value:
    """`RandomSampler(data, generator=…)` and the like."""
    at = SAMPLERS[name]
    drawn_on_host(run, kwargs.get("generator", args[at] if len(args) > at else None), node, frame)
    return Unknown(f"torch.{name}")


def flag(given: dict[str, Value], name: str) -> bool:
    """Whether an argument is certainly true."""
    value = given.get(name)
    return isinstance(value, Const) and bool(value.value)


def iterate(run: Run, owner: Instance, node: ast.AST, frame: Frame) -> tuple[tuple[Value, ...], Value | None]:
    """What iterating over an object gives."""
    from samedevice.lint import calls, iteration, modules

    if owner.builtin == LOADER:
        return (), batch_of(run, owner, node, frame)
    if owner.cls is not None:
        found = owner.cls.find("__iter__")
        if found is not None and isinstance(found[1], Func):
            result = calls.invoke(run, found[1], owner, [], {}, node, frame)
            if result is owner:
                step = owner.cls.find("__next__")
                if step is not None and isinstance(step[1], Func):
                    return (), calls.invoke(run, step[1], owner, [], {}, node, frame)
                return (), Unknown()
            return iteration.items_of(run, result, node, frame)
        found = owner.cls.find("__getitem__")
        if found is not None and isinstance(found[1], Func):
            return (), calls.invoke(run, found[1], owner, [NUM], {}, node, frame)
    if modules.is_module(owner):
        table = owner.cells.get("#dict")
        if isinstance(table, Dict):
            return tuple(Const(k) for k in table.cells if isinstance(k, str)), (
                NUM if REST in table.cells else None
            )
        if "#items" in owner.cells:
            items: tuple[Value, ...] = owner.cells["#items"] or ()
            return items, owner.cells.get("#rest")
    if owner.builtin is not None and owner.builtin.startswith(("torch.utils.data.", "torchvision.")):
        return (), sample_of(run, owner, node, frame)
    return (), Unknown()


def sample_of(run: Run, dataset: Value, node: ast.AST, frame: Frame) -> Value:
    """One sample of a dataset."""
    from samedevice.lint import calls

    if isinstance(dataset, Instance):
        if dataset.builtin == "torch.utils.data.TensorDataset":
            parts = []
            for tensor in dataset.cells.get("#tensors") or ():
                held = tensor_of(tensor)
                parts.append(
                    held.derive(None if held.rank in (None, 0, -1) else held.rank - 1)
                    if held is not None
                    else Unknown()
                )
            return Seq("tuple", tuple(parts))
        if dataset.builtin == "torchvision.datasets":
            image = Tensor(CPU, 3, dataset.birth)
            return Seq("tuple", (image, NUM))
        if dataset.builtin in ("torch.utils.data.Subset", "torch.utils.data.ConcatDataset"):
            return sample_of(run, dataset.cells.get("#dataset", UNKNOWN), node, frame)
        if dataset.cls is not None:
            found = dataset.cls.find("__getitem__")
            if found is not None and isinstance(found[1], Func):
                return calls.invoke(run, found[1], dataset, [Num()], {}, node, frame)
            found = dataset.cls.find("__iter__")
            if found is not None and isinstance(found[1], Func):
                result = calls.invoke(run, found[1], dataset, [], {}, node, frame)
                return element(result)
        return Unknown()
    if isinstance(dataset, Seq):
        return element(dataset)
    if isinstance(dataset, Array):
        return dataset
    tensor = tensor_of(dataset)
    if tensor is not None:
        return tensor.derive(tensor.rank - 1 if tensor.rank is not None and tensor.rank > 0 else None)
    return Unknown()


def batch_of(run: Run, loader: Instance, node: ast.AST, frame: Frame) -> Value:
    """One batch of a loader, every tensor of it marked as such."""
    from samedevice.lint import calls

    given: dict[str, Value] = loader.cells.get("#given") or {}
    dataset = loader.cells.get("#dataset", UNKNOWN)
    sample = sample_of(run, dataset, node, frame)
    collate = given.get("collate_fn")
    single = given.get("batch_size")
    if collate is not None and not (isinstance(collate, Const) and collate.value is None):
        batch = calls.call(run, collate, [Seq("list", (), sample)], {}, node, frame)
    elif isinstance(single, Const) and single.value is None:
        batch = sample
    else:
        host = flag(given, "pin_memory") or host_only(dataset)
        batch = default_collate(run, sample, node, frame, host)
    pin = given.get("pin_memory")
    if isinstance(pin, Const) and pin.value is True:
        for tensor in leaves(batch):
            if tensor.dev is not None and tensor.dev.is_gpu:
                meet.simple(
                    run,
                    "pin",
                    "DataLoader",
                    node,
                    frame,
                    Operand(tensor, tensor, None),
                    loader=loader.birth,
                    culprit=loader.birth,
                )
                break
    forked(run, given, sample, loader, node, frame)
    event = run.event("batch", node, frame, extra=loader)
    return mark(batch, event)


def host_only(dataset: Value) -> bool:
    """Whether a dataset of the program names no device: what it reads, from wherever, comes on the CPU."""
    if isinstance(dataset, Instance) and dataset.builtin in (
        "torch.utils.data.Subset",
        "torch.utils.data.ConcatDataset",
    ):
        return host_only(dataset.cells.get("#dataset", UNKNOWN))
    if not isinstance(dataset, Instance) or dataset.cls is None:
        return False
    for cls in dataset.cls.mro:
        starts = Text.of(cls.file.text).lines
        end = cls.node.end_lineno or cls.node.lineno
        text = cls.file.text[starts[cls.node.lineno - 1] : starts[end] if end < len(starts) else None]
        if "cuda" in text or "device" in text or "gpu" in text.lower() or ".to(" in text:
            return False
    held = [v for v in dataset.cells.values() if isinstance(v, Tensor | Seq | Dict)]
    return all(t.dev is not None and t.dev.is_cpu for v in held for t in leaves(v))


def forked(
    run: Run, given: dict[str, Value], sample: Value, loader: Instance, node: ast.AST, frame: Frame
) -> None:
    """Workers are forked from a process that uses CUDA: they cannot use it themselves."""
    workers = given.get("num_workers")
    if not (isinstance(workers, Const) and isinstance(workers.value, int) and workers.value > 0):
        return
    context = given.get("multiprocessing_context")
    texts = [run.file.text, *(m.file.text for m in run.modules.values())]
    if (context is not None and not (isinstance(context, Const) and context.value is None)) or any(
        "spawn" in t for t in texts
    ):
        return
    for tensor in leaves(sample):
        made = tensor.moved or tensor.birth
        inside = made is not None and made.site.function == "__getitem__"
        if inside and tensor.dev is not None and tensor.dev.is_gpu:
            meet.simple(
                run,
                "fork",
                "DataLoader",
                node,
                frame,
                Operand(tensor, tensor, None),
                loader=loader.birth,
                culprit=loader.birth,
                made=made,
            )
            return


def mark(value: Value, event: Event, depth: int = 4) -> Value:
    """The same structure with its tensors marked as parts of a batch."""
    if depth == 0:
        return value
    if isinstance(value, Tensor):
        if value.moved is not None or value.dev is None or not value.dev.is_cpu:
            return value
        marked = value.copy()
        marked.batch = event
        marked.held = None
        marked.leaf = True
        marked.lost = None
        return marked
    if isinstance(value, Seq):
        rest = value.rest
        copy = Seq(
            value.kind,
            tuple(mark(i, event, depth - 1) for i in value.items),
            None if rest is None else mark(rest, event, depth - 1),
        )
        copy.birth = value.birth
        return copy
    if isinstance(value, Dict):
        table = Dict()
        table.birth = value.birth
        for key, item in value.cells.items():
            table.cells[key] = mark(item, event, depth - 1) if isinstance(item, Value) else item
        return table
    if isinstance(value, Alts):
        return Alts(tuple(mark(o, event, depth - 1) for o in value.options))
    if isinstance(value, Instance) and value.cls is not None and value.cls.dataclass is not None:
        for key, item in list(value.cells.items()):
            if isinstance(item, Tensor | Seq | Dict):
                value.cells[key] = mark(item, event, depth - 1)
    return value


def default_collate(
    run: Run, sample: Value, node: ast.AST, frame: Frame, pinned: bool, depth: int = 4
) -> Value:
    """`torch.utils.data.default_collate` of a list of such samples."""
    if depth == 0:
        return Unknown()
    if isinstance(sample, Tensor | Param):
        tensor = tensor_of(sample)
        assert tensor is not None
        return tensor.derive(tensor.rank + 1 if tensor.rank is not None and tensor.rank >= 0 else -1)
    if isinstance(sample, Array):
        return Tensor(CPU, -1, run.event("collated", node, frame))
    if isinstance(sample, Const | Num):
        if isinstance(sample, Const) and isinstance(sample.value, str | type(None)):
            return Seq("list", (), sample)
        if isinstance(sample, Num) and sample.tag:
            return Unknown()
        return Tensor(CPU, 1, run.event("collated", node, frame))
    if isinstance(sample, Seq):
        parts = tuple(default_collate(run, item, node, frame, pinned, depth - 1) for item in sample.items)
        rest = (
            None if sample.rest is None else default_collate(run, sample.rest, node, frame, pinned, depth - 1)
        )
        return Seq("list", parts, rest)
    if isinstance(sample, Dict):
        table = Dict()
        for key, item in sample.cells.items():
            if isinstance(item, Value):
                table.cells[key] = default_collate(run, item, node, frame, pinned, depth - 1)
        return table
    if isinstance(sample, Alts):
        found: Value | None = None
        for option in sample.options:
            one = default_collate(run, option, node, frame, pinned, depth - 1)
            found = one if found is None else join(found, one, True)
        return found if found is not None else Unknown()
    if isinstance(sample, Unknown):
        return Tensor(CPU if pinned else None, None, run.event("collated", node, frame))
    return Unknown()


__all__ = ["Device", "batch_of", "iterate", "make_loader", "sample_of"]
