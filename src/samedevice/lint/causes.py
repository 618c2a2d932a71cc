"""Which mistake explains a meeting: from where the stray comes, what moved it, who holds it."""

import ast
from typing import Any

from samedevice.lint import module_causes, modules
from samedevice.lint.devices import same
from samedevice.lint.meet import Found
from samedevice.lint.run import Run
from samedevice.lint.values import Device, Event, Instance, Param, Site, Stack, Tensor
from samedevice.source.edits import statement_of
from samedevice.torch_facts import api

FORWARD = ("forward", "training_step", "validation_step", "test_step", "predict_step")


class Cause:
    """The rule, the place of the mistake, and what the message is about."""

    __slots__ = (
        "copied",
        "created",
        "culprit",
        "defaulted",
        "facts",
        "held",
        "module_moved",
        "name",
        "owner",
        "rule",
    )

    def __init__(self, rule: str, culprit: Site) -> None:
        self.rule = rule
        self.culprit = culprit
        self.name: str | None = None
        self.owner: str | None = None
        self.created: Event | None = None
        self.copied: Event | None = None
        self.module_moved: Event | None = None
        self.held: Event | None = None
        self.defaulted: Event | None = None
        self.facts: dict[str, Any] = {}


def path_of(event: Event) -> Stack:
    """The calls that led to an event, and its place."""
    return (*event.stack, event.site)


def climb(event: Event, other: Event) -> Site:
    """Where `event` happened, seen from the function in which both events happened."""
    for mine, theirs in zip(path_of(event), path_of(other), strict=False):
        if mine.node is not theirs.node:
            return mine
    return event.site


def used(found: Found, event: Event) -> Site:
    """Where the value that came about by `event` was handed on, in the function of `event`."""
    level = len(event.stack)
    prefix = all(a.node is b.node for a, b in zip(event.stack, found.path, strict=False))
    if prefix and level < len(found.path):
        return found.path[level]
    return found.path[-1]


def classify(run: Run, found: Found) -> Cause | None:
    """The mistake behind what was found, None when it cannot be told."""
    handler = KINDS.get(found.kind)
    if handler is not None:
        known: Cause | None = handler(found)
        return known
    stray = found.stray
    assert stray is not None
    tensor = stray.tensor
    owner = found.owner
    if owner is None and tensor.buffer is not None and tensor.module is not None:
        current = tensor.module.cells.get(tensor.buffer)
        if current is not tensor:
            return stale_alias(found, tensor)
        owner = tensor.module
    two_gpus = tensor.dev is not None and not tensor.dev.is_cpu
    if two_gpus:
        return between_gpus(found, owner)
    if owner is not None:
        return module_causes.of_module(run, found, tensor, owner)
    return of_tensor(found, tensor)


def dropped(choice: Device | None) -> Cause | None:
    """A device that a default value decided, because a caller left the argument out."""
    if choice is None or choice.default is None:
        return None
    cause = Cause("device-argument-dropped", choice.default.site)
    cause.defaulted = choice.default
    cause.name = choice.default.text
    cause.owner = getattr(choice.default.extra, "name", None)
    cls = getattr(choice.default.extra, "cls", None)
    if cls is not None:
        cause.owner = cls.name if cause.owner == "__init__" else f"{cls.name}.{cause.owner}"
    return cause


def stale_alias(found: Found, tensor: Tensor) -> Cause:
    """A second reference to a buffer, from before the module moved."""
    event = tensor.held or tensor.birth
    assert event is not None
    cause = Cause("stale-alias", event.site)
    cause.name = tensor.buffer
    cause.owner = tensor.module.class_name if tensor.module is not None else None
    cause.module_moved = last_move(tensor.module)
    return cause


def last_move(instance: Instance | None) -> Event | None:
    """The latest move of a module."""
    moves = instance.cells.get("#moves") if instance is not None else None
    return moves[-1] if moves else None


def of_tensor(found: Found, tensor: Tensor) -> Cause | None:
    """A tensor on the CPU that no module has registered."""
    if tensor.lost is not None:
        return Cause("discarded-move", tensor.lost.site)
    if tensor.missed is not None:
        cause = Cause("nested-tensor-missed", tensor.missed.site)
        cause.name = tensor.missed.text
        return cause
    left_out = dropped(tensor.choice)
    if left_out is not None:
        return left_out
    if tensor.moved is not None and tensor.choice is not None:
        return moved_to_host(found, tensor)
    if tensor.choice is not None and tensor.birth is not None:
        return chosen_host(tensor)
    if found.kind == "index" and moved_afterwards(found.site):
        cause = Cause("index-on-other-device", found.site)
        cause.held = tensor.held
        return cause
    if tensor.batch is not None:
        return of_batch(found, tensor)
    birth = tensor.birth
    if birth is not None and birth.kind == "loaded":
        return Cause("load-without-map-location", birth.site)
    held = tensor.held
    if held is not None and held.kind == "attribute" and isinstance(held.extra, Instance):
        kept = of_attribute(found, tensor, held, held.extra)
        if kept is not None:
            return kept
    if birth is None:
        return None
    if birth.kind in ("parameter", "following") or (
        held is not None and held.kind == "container" and birth.kind == "parameter"
    ):
        return copy_of_parameter(found, tensor, birth)
    if birth.kind not in ("factory", "numpy", "collated", "lengths"):
        return Cause("device-mismatch", found.site)
    if found.in_place and found.stray is not None and birth.kind == "factory":
        return Cause("accumulator-on-cpu", birth.site)
    use = used(found, birth)
    if handed_on(found, birth, use):
        return of_batch(found, tensor, use)
    if birth.kind not in ("factory", "numpy"):
        return Cause("batch-not-moved", use)
    return Cause("factory-without-device", birth.site)


def moved_afterwards(site: Site) -> bool:
    """Whether what an expression gives is moved at once: `table[index].to(device)`."""
    return any(
        isinstance(n, ast.Attribute) and n.value is site.node and n.attr in ("to", "cuda")
        for n in ast.walk(site.file.parsed())
    )


def copy_of_parameter(found: Found, tensor: Tensor, birth: Event) -> Cause | None:
    """Something computed from a parameter before its module moved."""
    held = tensor.held
    module = birth.extra.owner if isinstance(birth.extra, Param) else birth.extra
    event = held or birth
    if isinstance(module, Instance) and module.birth is not None and module.birth.kind == "copied":
        event, module = module.birth, module.birth.extra
    move = last_move(module) if isinstance(module, Instance) else None
    if move is None:
        return Cause("device-mismatch", found.site)
    cause = Cause("copy-left-behind", climb(event, move))
    cause.module_moved = move
    return cause


def moved_to_host(found: Found, tensor: Tensor) -> Cause:
    """A tensor that was taken to the CPU by hand."""
    assert tensor.moved is not None
    other = found.other.tensor if found.other is not None else None
    if other is not None and other.held is not None and other.moved is not None:
        return Cause("moved-behind-your-back", tensor.moved.site)
    return Cause("device-mismatch" if tensor.moved.text == "cpu" else "hardcoded-device", tensor.moved.site)


def chosen_host(tensor: Tensor) -> Cause:
    """A tensor made on a device that was decided elsewhere."""
    assert tensor.choice is not None and tensor.birth is not None
    site = tensor.choice.site
    if site is None:
        return Cause("hardcoded-device", tensor.birth.site)
    birth = tensor.birth.site
    inside = site.file is birth.file and birth.line <= site.line <= getattr(
        birth.node, "end_lineno", birth.line
    )
    if inside:
        return Cause("hardcoded-device", birth)
    return Cause("device-chosen-twice" if is_choice(site) else "device-mismatch", site)


def is_choice(site: Site) -> bool:
    """Whether a device is chosen for a whole file: assigned to a name at its top."""
    statement = statement_of(site.file.parsed(), site.node)
    if (
        site.function != "<module>"
        or not isinstance(statement, ast.Assign | ast.AnnAssign)
        or statement.value is None
    ):
        return False
    return not any(isinstance(n, ast.Dict | ast.List | ast.Tuple) for n in ast.walk(statement.value))


def of_batch(found: Found, tensor: Tensor, use: Site | None = None) -> Cause:
    """Data that nobody moved."""
    event = tensor.batch
    if use is None:
        assert event is not None
        use = used(found, event)
    if tensor.bound is not None and event is not None and len(tensor.bound.stack) == len(event.stack):
        use = tensor.bound.site
    target = is_loss(found) or sibling_moved(found, tensor)
    return Cause("target-not-moved" if target else "batch-not-moved", use)


def sibling_moved(found: Found, tensor: Tensor) -> bool:
    """Whether what it meets came out of the same batch and was moved."""
    other = found.other.tensor if found.other is not None else None
    return (
        other is not None
        and other.birth is not None
        and other.birth.kind == "parameter"
        and not isinstance(found.other.value, Param)
        if found.other
        else False
    )


def is_loss(found: Found) -> bool:
    """Whether the call computes a loss."""
    name = found.operator.rpartition(".")[2].lower()
    return name in api.LOSSES or name.endswith("loss") or "criterion" in name or name in ("loss_fn", "lossfn")


def handed_on(found: Found, birth: Event, use: Site) -> bool:
    """Whether data made once, before a loop, is handed to a call inside the loop."""
    if use.node is birth.site.node or birth.site.function != use.function or birth.site.file is not use.file:
        return False
    if not isinstance(use.node, ast.Call):
        return False
    call = use.node
    names = {
        n.id
        for arg in [*call.args, *[k.value for k in call.keywords]]
        for n in ast.walk(arg)
        if isinstance(n, ast.Name)
    }
    target = assigned_name(birth.site)
    if target is None or target not in names:
        return False
    loops = [n for n in ast.walk(use.file.parsed()) if isinstance(n, ast.For | ast.While)]
    return any(
        n.lineno <= use.line <= (n.end_lineno or 0) and not n.lineno <= birth.site.line <= (n.end_lineno or 0)
        for n in loops
    )


def assigned_name(site: Site) -> str | None:
    """The name to which a statement assigns the node's value."""
    for node in ast.walk(site.file.parsed()):
        if (
            isinstance(node, ast.Assign)
            and node.lineno <= site.line <= (node.end_lineno or 0)
            and isinstance(node.targets[0], ast.Name)
        ):
            return node.targets[0].id
    return None


def of_attribute(found: Found, tensor: Tensor, held: Event, holder: Instance) -> Cause | None:
    """A plain attribute."""
    if modules.is_module(holder):
        if (
            found.alone
            and found.wanted is not None
            and found.wanted.is_symbol
            and found.wanted.symbol is not holder
        ):
            # Where an argument is does not show where the module is.
            return Cause("", held.site)
        rule = "unregistered-tensor"
        stores = stored_in(holder, held.text)
        if held.site.function in FORWARD:
            rule = "cached-on-first-device"
        elif stores & set(FORWARD):
            rule = "carried-state"
        cause = Cause(rule, held.site)
        cause.name, cause.owner = held.text, holder.class_name
        cause.held = held
        cause.module_moved = last_move(holder)
        return cause
    if found.kind == "index":
        cause = Cause("index-on-other-device", found.site)
        cause.name, cause.owner, cause.held = held.text, holder.class_name, held
        return cause
    return None


def stored_in(holder: Instance, attribute: str) -> set[str]:
    """The methods of a class that assign an attribute."""
    names: set[str] = set()
    for cls in holder.cls.mro if holder.cls is not None else ():
        for statement in cls.node.body:
            if isinstance(statement, ast.FunctionDef):
                for node in ast.walk(statement):
                    if (
                        isinstance(node, ast.Attribute)
                        and node.attr == attribute
                        and isinstance(node.ctx, ast.Store)
                    ):
                        names.add(statement.name)
    return names


def between_gpus(found: Found, owner: Instance | None) -> Cause | None:
    """Two accelerators."""
    stray, other = found.stray, found.other
    assert stray is not None
    tensor = stray.tensor
    if other is not None and other.tensor.dev is not None and other.tensor.dev.type == "replica":
        event = tensor.held or tensor.moved or tensor.birth
        if event is None:
            return None
        cause = Cause("unreplicated-attribute", event.site)
        cause.name = event.text
        return cause
    if tensor.dev is not None and tensor.dev.is_symbol:
        return None
    for operand in (stray, *([other] if other is not None else [])):
        param = operand.value
        if isinstance(param, Param) and param.owner is not None and param.tensor.moved is not None:
            mover = param.tensor.moved.extra
            if isinstance(mover, Instance) and param.owner not in list(modules.walk(mover)):
                cause = Cause("tied-weights-split", param.tensor.moved.site)
                cause.name, cause.owner = param.name, param.owner.class_name
                return cause
    left_out = dropped(tensor.choice)
    if left_out is not None:
        return left_out
    birth = tensor.birth
    if birth is not None and birth.kind == "loaded":
        return Cause("load-without-map-location", birth.site)
    if (
        found.site.function in FORWARD
        and other is not None
        and other.tensor.choice is not None
        and other.tensor.birth is not None
        and other.tensor.birth.kind == "parameter"
    ):
        site = other.tensor.choice.site or (
            other.tensor.moved.site if other.tensor.moved is not None else None
        )
        if placed_by_itself(other.tensor):
            site = found.site
        if site is not None:
            return Cause("split-without-move", site)
    computed = birth is not None and birth.kind == "parameter" and tensor.moved is None
    if computed and other is not None and isinstance(other.value, Param):
        return Cause("split-without-move", found.site)
    if tensor.moved is not None:
        bare = (
            tensor.choice is not None and tensor.choice.dev.index is None and tensor.choice.dev.type == "cuda"
        )
        return Cause(
            "bare-cuda-in-multi-gpu" if bare and tensor.moved.text != "to" else "cross-gpu-operands",
            tensor.moved.site,
        )
    if tensor.choice is not None and birth is not None:
        return Cause("cross-gpu-operands", birth.site)
    return Cause("cross-gpu-operands", found.site)


def placed_by_itself(tensor: Tensor) -> bool:
    """Whether a module puts its parts on several GPUs in its own `__init__`, so that its `forward` has to know."""
    source = tensor.birth.extra if tensor.birth is not None else None
    move = last_move(source) if isinstance(source, Instance) else tensor.moved
    return move is not None and move.site.function == "__init__"


def simple(rule: str) -> Any:
    """A mistake whose place is the place where it shows."""
    return lambda found: Cause(rule, found.site)


def at(rule: str, *keys: str) -> Any:
    """A mistake made at the first known of some events."""

    def build(found: Found) -> Cause:
        event = next((found.extra[k] for k in keys if isinstance(found.extra.get(k), Event)), None)
        cause = Cause(rule, event.site if event is not None else found.site)
        cause.created = event
        return cause

    return build


def of_optimizer(found: Found) -> Cause | None:
    """State that was allocated or loaded before the parameters moved."""
    state, stray = found.extra.get("state"), found.stray
    if not isinstance(state, Event) or stray is None:
        return None
    move = stray.tensor.moved
    cause = Cause("optimizer-state-left-behind", climb(state, move) if move is not None else state.site)
    cause.created, cause.module_moved = state, move
    cause.name = found.extra["optimizer"].class_name
    cause.facts["how"] = state.text
    return cause


def of_generator(found: Found) -> Cause | None:
    generator = found.extra.get("generator")
    if not isinstance(generator, Instance) or generator.birth is None:
        return None
    cause = Cause("generator-on-other-device", generator.birth.site)
    cause.created = generator.birth
    cause.facts["own"] = str(found.extra.get("own"))
    return cause


def of_replicated(found: Found) -> Cause | None:
    module = found.extra.get("module")
    if not isinstance(module, Instance) or module.birth is None:
        return None
    cause = Cause("data-parallel-source-device", module.birth.site)
    cause.created = module.birth
    cause.name = module.class_name
    return cause


def of_meta(found: Found) -> Cause | None:
    module = found.extra.get("module")
    loaded = found.extra.get("loaded")
    birth = module.birth if isinstance(module, Instance) else None
    event = loaded if isinstance(loaded, Event) else birth
    if event is None:
        return None
    cause = Cause("meta-left", event.site)
    cause.created = event
    cause.name = str(found.extra.get("name"))
    return cause


KINDS: dict[str, Any] = {
    "discarded": simple("discarded-move"),
    "numpy": simple("numpy-on-gpu"),
    "fork": at("cuda-in-forked-worker", "loader"),
    "collective": simple("collective-on-wrong-device"),
    "pin": at("pinning-gpu-tensor", "loader"),
    "generator": of_generator,
    "default-generator": simple("default-device-leak"),
    "no-backward": simple("step-without-backward"),
    "no-zero-grad": simple("missing-zero-grad"),
    "lengths": simple("lengths-on-gpu"),
    "meta": of_meta,
    "data-parallel": of_replicated,
    "traced": at("traced-constant-device", "traced"),
    "gradient": simple("cpu-gradient"),
    "optimizer": of_optimizer,
    "optimizer-item": simple("optimizer-state-left-behind"),
}

__all__ = ["Cause", "classify", "same"]
