"""Mistakes whose stray is a parameter or buffer: what became of its module."""

from __future__ import annotations

from samedevice.lint import causes, modules
from samedevice.lint.meet import Found
from samedevice.lint.run import Run
from samedevice.lint.values import Dict, Event, Instance, Param, Seq, Site, Tensor
from samedevice.torch_facts import api


def keeper(instance: Instance) -> tuple[Event, Instance | None, bool] | None:
    """What holds an instance: the event, the object, and whether through a plain container."""
    held = instance.cells.get("#held")
    if held is None:
        return None
    if held.kind == "attribute":
        return held, held.extra, False
    container = held.extra
    birth = container.birth if isinstance(container, Seq | Dict) else None
    outer = birth.extra if birth is not None else None
    if isinstance(outer, Event) and isinstance(outer.extra, Instance):
        return held, outer.extra, True
    return held, None, True


def in_plain_container(instance: Instance, holder: Instance) -> Event | None:
    """The attribute of `holder` whose list or dict holds `instance`, with the place where that came about."""
    for name, value in holder.cells.items():
        if not isinstance(value, Seq | Dict) or (isinstance(name, str) and name.startswith("#")):
            continue
        parts = [*value.items, value.rest] if isinstance(value, Seq) else list(value.cells.values())
        if any(part is instance for part in parts) and value.birth is not None:
            event = value.birth.extra
            return event if isinstance(event, Event) else value.birth
    return None


def holders(run: Run, instance: Instance) -> list[Instance]:
    """Modules that have `instance` registered, or in a plain container; found by looking."""
    found = []
    for candidate in run.instances:
        for _, child in modules.children(candidate):
            if child is instance:
                found.append(candidate)
    return found


def of_module(run: Run, found: Found, tensor: Tensor, owner: Instance) -> causes.Cause | None:
    """A parameter or buffer on the CPU."""
    moved = tensor.moved
    if moved is not None:
        cause = causes.dropped(moved.device)
        if cause is not None:
            cause.module_moved = moved
            return cause
        if copied_from(owner) is not None:
            site = (
                moved.device.site
                if moved.device is not None and moved.device.site is not None
                else moved.site
            )
            cause = causes.Cause("copy-left-behind", site)
            cause.copied = copied_from(owner)
        else:
            cause = causes.Cause("moved-behind-your-back", moved.site)
        cause.module_moved = moved
        cause.owner = owner.class_name
        return cause
    if tensor.choice is not None and tensor.choice.site is not None:
        cause = causes.dropped(tensor.choice)
        if cause is not None:
            return cause
    birth = owner.birth
    if birth is None:
        return None
    if birth.site.function in causes.FORWARD:
        cause = causes.Cause("module-built-in-forward", birth.site)
        cause.name = owner.class_name
        cause.created = birth
        return cause
    instance = owner
    for _ in range(12):
        copied = instance.birth if instance.birth is not None and instance.birth.kind == "copied" else None
        if copied is not None:
            source_move = causes.last_move(copied.extra) if isinstance(copied.extra, Instance) else None
            cause = causes.Cause(
                "copy-left-behind",
                causes.climb(copied, source_move) if source_move is not None else copied.site,
            )
            cause.copied, cause.module_moved = copied, source_move
            cause.owner = instance.class_name
            return cause
        parents = holders(run, instance)
        if parents:
            parent = parents[0]
            if causes.last_move(parent) is not None and causes.last_move(instance) is None:
                move = causes.last_move(parent)
                assert move is not None
                cause = causes.Cause("module-added-after-move", set_apart(birth, move, found))
                cause.created, cause.module_moved = birth, move
                cause.name, cause.owner = instance.class_name, parent.class_name
                return cause
            instance = parent
            continue
        kept = keeper(instance)
        if kept is not None and kept[2]:
            event, holder, _ = kept
            if holder is not None and modules.is_module(holder):
                cause = causes.Cause("module-in-container", event.site)
                cause.held = event
                attribute = holder_attribute(holder, event)
                cause.name, cause.owner = attribute, holder.class_name
                cause.module_moved = causes.last_move(holder)
                return cause
        for candidate in run.instances:
            event2 = in_plain_container(instance, candidate) if modules.is_module(candidate) else None
            if event2 is not None:
                cause = causes.Cause("module-in-container", event2.site)
                cause.held = event2
                cause.name, cause.owner = event2.text or None, candidate.class_name
                cause.module_moved = causes.last_move(candidate)
                return cause
        break
    return never_moved(found, instance)


def set_apart(event: Event, other: Event, found: Found) -> Site:
    """Where `event` is out of order with `other`, below the calls that lead to where the tensors meet."""
    first = causes.climb(event, other)
    path = causes.path_of(event)
    leading = {id(site.node) for site in found.path}
    nodes = [site.node for site in path]
    below = path[nodes.index(first.node) :] if first.node in nodes else (first,)
    return next((site for site in below if id(site.node) not in leading), first)


def holder_attribute(holder: Instance, event: Event) -> str | None:
    """The attribute whose container an instance was put into."""
    for name, value in holder.cells.items():
        if value is event.extra and isinstance(name, str):
            return name
    return None


def never_moved(found: Found, root: Instance) -> causes.Cause | None:
    """A whole module that nobody moved."""
    if root.birth is None:
        return None
    base = modules.base_builtin(root) or ""
    name = root.class_name
    if base in api.LOSS_MODULES or name.endswith("Loss") or name.lower().endswith("criterion"):
        rule = "loss-weight-not-moved"
    elif is_metric(root, found):
        rule = "metric-state-not-moved"
    else:
        rule = "module-not-moved"
    cause = causes.Cause(rule, made_for(root.birth, found))
    cause.created = root.birth
    cause.name = name
    if found.stray is not None and isinstance(found.stray.value, Param):
        cause.facts["parameter"] = found.stray.value.name
    return cause


def made_for(birth: Event, found: Found) -> Site:
    """Where the program that uses an object had it made: the call of a helper that returns it.

    What an `__init__` makes belongs to the object made there.
    """
    made = causes.path_of(birth)
    level = 0
    while level < min(len(made), len(found.path)) and made[level].node is found.path[level].node:
        level += 1
    for deeper in range(len(made) - 1, level, -1):
        if made[deeper].function == "__init__":
            return made[deeper]
    return made[min(level, len(made) - 1)]


def is_metric(root: Instance, found: Found) -> bool:
    """Whether a module looks like a metric: it is updated, not called, or a torchmetrics one."""
    if root.builtin is not None and root.builtin.startswith("torchmetrics."):
        return True
    if root.cls is None:
        return False
    if any("Metric" in name for name in root.cls.external):
        return True
    return root.cls.find("update") is not None and root.cls.find("compute") is not None


def copied_from(owner: Instance) -> Event | None:
    """The copy that a module came from."""
    return owner.birth if owner.birth is not None and owner.birth.kind == "copied" else None
