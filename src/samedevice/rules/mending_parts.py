"""Edits for what comes in parts (a batch, a record): the move that one part has, for the part that lacks it."""

import ast
from collections.abc import Iterator

from samedevice.model.diagnostic import Location
from samedevice.model.fix import Fix
from samedevice.model.scene import Action, Operand, Scene, Step
from samedevice.rules.mending import (
    MOST_DEVICES,
    add_move,
    enclosing,
    fix,
    is_path,
    is_written_to,
    receiver_of,
    same_expressions,
    to,
)
from samedevice.rules.mending_order import names_read
from samedevice.rules.mending_workers import is_call_of
from samedevice.rules.sites import Site, Sites
from samedevice.source import edits

#: what a function names that knows of tuples, or of everything that has parts
TUPLES = ("tuple", "Tuple", "_fields", "Sequence", "Iterable", "namedtuple", "_asdict")


def batch(scene: Scene, sites: Sites, name: str, bound: Step | None, used: Step | None) -> Iterator[Fix]:
    """The move of a part of a batch: beside its siblings, at the head of the loop, or where it gets its name."""
    raised, stray = sites.at(scene.raised), scene.stray_operand
    fresh = is_fresh(scene.culprit)
    written = "" if stray is None else stray.expression or name
    if raised is not None and not fresh and is_written_to(raised, written):
        return  # what is written to a copy is lost
    start = sites.at(bound.location if bound is not None else None)
    use = sites.at(used.location if used is not None else None)
    if start is not None:
        statement = start.statement
        if isinstance(statement, (ast.For, ast.AsyncFor)):
            if name.isidentifier():
                yield from in_loop(start, statement, name, scene.wanted, fresh=fresh)
        elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
            if isinstance(target, ast.Name) and target.id == name:
                for device in start.at(statement).devices(scene.wanted)[:MOST_DEVICES]:
                    yield from add_move(start, statement.value, device)
            elif isinstance(target, ast.Tuple) and name.isidentifier():
                for device in start.at(statement).devices(scene.wanted)[:MOST_DEVICES]:
                    line = f"{name} = {name}{to(device)}"
                    change = edits.insert_after(start.path, start.text, statement, line)
                    yield from fix(f"Move it to `{device}`", [change])
    if use is not None:
        statement = use.statement
        found = [] if statement is None else same_expressions(use.at(statement), name)
        for device in use.devices(scene.wanted)[:MOST_DEVICES]:
            for node in found[:1]:
                yield from add_move(use, node, device)


def is_fresh(operand: Operand | None) -> bool:
    """Whether a loader has just made it, so that nobody keeps the tensor that a move leaves behind."""
    if operand is None or not operand.provenance:
        return False
    return operand.provenance[-1].action is Action.BATCHED


def whole_batch(scene: Scene, sites: Sites, loop: Location | None) -> Iterator[Fix]:
    """The move of all that a loop receives, where a part of it is used that has no name of its own."""
    site = sites.at(loop)
    statement = None if site is None else site.statement
    if site is None or not isinstance(statement, ast.For):
        return
    target = statement.target
    if isinstance(target, ast.Tuple) and len(target.elts) == 2 and is_call_of(statement.iter, "enumerate"):
        target = target.elts[1]
    if isinstance(target, ast.Name):
        yield from in_loop(site, statement, target.id, scene.wanted, fresh=True)


def in_loop(
    site: Site, loop: ast.For | ast.AsyncFor, name: str, wanted: str | None, *, fresh: bool
) -> Iterator[Fix]:
    """`x = x.to(device)` in a loop, behind the moves that stand there already."""
    if not fresh and any(is_written_to(site.at(statement), name) for statement in loop.body):
        return
    sibling = None
    for statement in loop.body:
        if not isinstance(statement, ast.Assign) or name in names_read(statement.value):
            break
        if not any(
            isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr in ("to", "cuda")
            for n in ast.walk(statement.value)
        ):
            break
        sibling = statement
    first = loop.body[0]
    if sibling is None and isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        first = loop.body[-1]
    inside = site.at(sibling or first)
    for device in inside.devices(wanted)[:MOST_DEVICES]:
        line = f"{name} = {name}{to(device)}"
        if sibling is not None:
            change = edits.insert_after(site.path, site.text, sibling, line)
        else:
            change = (
                edits.insert_first(site.path, site.text, loop, line) if isinstance(loop, ast.For) else None
            )
        yield from fix(f"Move it to `{device}` at the head of the loop", [change])


def field_beside(site: Site | None, path: str | None) -> Iterator[Fix]:
    """`replace(self, a=self.a.to(d))` moves the other field as well."""
    parts = path_parts(path)
    if site is None or len(parts) < 2:
        return
    name, inner = parts[1], parts[2:]
    for node in site.source.around(site.node):
        if not isinstance(node, ast.Call):
            continue
        for given in node.keywords:
            device = device_of_move(given.value, site.node)
            if given.arg is None or device is None or not isinstance(given.value, ast.Call):
                continue
            host = given.value.func.value if isinstance(given.value.func, ast.Attribute) else None
            if not isinstance(host, ast.Attribute) or host.attr != given.arg:
                continue
            field = f"{site.written(host.value)}.{name}"
            moved = f"{field}.to({device})"
            if inner:
                moved = (
                    f"{{k: v.to({device}) for k, v in {field}.items()}}"
                    if inner[0].startswith(("'", '"'))
                    else f"[v.to({device}) for v in {field}]"
                )
            change = edits.add_keyword(site.path, site.text, node, f"{name}={moved}")
            yield from fix(f"Move `{name}` as well", [change])
    yield from neighbour(site, name)
    yield from item_beside(site, name)


def tuples_as_well(site: Site | None) -> Iterator[Fix]:
    """A branch for tuples, named ones too, in a function that goes through lists by calling itself."""
    function = None if site is None else enclosing(site)
    if site is None or function is None or not function.args.args:
        return
    name, last = function.args.args[0].arg, function.body[-1]
    if not (isinstance(last, ast.Return) and last.value is not None and ast.unparse(last.value) == name):
        return
    if any(
        ast.unparse(n).rpartition(".")[2] in TUPLES for n in ast.walk(function) if isinstance(n, ast.expr)
    ):
        return  # it has an opinion on tuples
    for each in ast.walk(function):
        if not isinstance(each, ast.ListComp) or len(each.generators) != 1:
            continue
        part, source = each.elt, each.generators[0]
        itself = isinstance(part, ast.Call) and ast.unparse(part.func).rpartition(".")[2] == function.name
        if not itself or ast.unparse(source.iter) != name or source.ifs or source.is_async:
            continue
        parts = next(n for n in ("parts", "tuple_parts") if n not in names_read(function))
        indent = edits.indentation(site.source.places, last)
        if indent is None:
            return
        step = "\t" if "\t" in indent else "    "
        lines = (
            f"if isinstance({name}, tuple):",
            f"{step}{parts} = {ast.unparse(each)}",
            f'{step}return type({name})(*{parts}) if hasattr({name}, "_fields") else type({name})({parts})',
        )
        between = edits.line_end(site.source.places) + indent
        change = edits.insert_before(site.path, site.text, last, between.join(lines))
        yield from fix("Go through tuples as well", [change])
        return


def item_beside(site: Site, name: str) -> Iterator[Fix]:
    """A line like `self.a = self.a.to(d)` or `batch["a"] = batch["a"].to(d)`, repeated for the other one."""
    statement = site.statement
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return
    target = statement.targets[0]
    device = device_of_move(statement.value, site.node)
    if device is None or not isinstance(statement.value, ast.Call):
        return
    if isinstance(target, ast.Attribute):
        other = f"{site.written(target.value)}.{name}"
    elif isinstance(target, ast.Subscript):
        other = f"{site.written(target.value)}[{name}]"
    else:
        return
    change = edits.insert_after(site.path, site.text, statement, f"{other} = {other}.to({device})")
    yield from fix(f"Move `{other}` as well", [change])


def path_parts(path: str | None) -> list[str]:
    """`batch.inputs['ids']` in its parts."""
    try:
        node: ast.AST = ast.parse(path or "", mode="eval").body
    except SyntaxError:
        return []
    parts: list[str] = []
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        parts.append(node.attr if isinstance(node, ast.Attribute) else ast.unparse(node.slice))
        node = node.value
    return [*([node.id] if isinstance(node, ast.Name) else []), *reversed(parts)]


def device_of_move(value: ast.AST, move: ast.AST) -> str | None:
    """What a move names as its device, when the expression is that move."""
    if not isinstance(value, ast.Call) or receiver_of(value, "to") is None or not value.args:
        return None
    return ast.unparse(value.args[0]) if any(n is move for n in ast.walk(value)) else None


def neighbour(site: Site, name: str) -> Iterator[Fix]:
    """`Sample(self.a.to(d), self.b)` or `[x.to(d), y]`: the same move for the part that stands beside."""
    device = device_of_move(site.node, site.node)
    if device is None:
        return
    for node in site.source.around(site.node):
        if isinstance(node, ast.stmt):
            return
        if isinstance(node, ast.Call):
            parts = [*node.args, *[k.value for k in node.keywords]]
        elif isinstance(node, (ast.Tuple, ast.List)):
            parts = node.elts
        elif isinstance(node, ast.Dict):
            parts = node.values
        else:
            continue
        for part in parts:
            if path_parts(ast.unparse(part))[-1:] in ([name], [repr(name)]):
                yield from add_move(site, part, device, f"Move `{name}` as well")


def state_by_hand(site: Site | None, wanted: str | None) -> Iterator[Fix]:
    """`optimizer.state[p][key] = value` with the value on the device of `p`."""
    statement = None if site is None else site.statement
    if site is None or not isinstance(statement, ast.Assign):
        return
    for node in ast.walk(statement.targets[0]):
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Attribute)
            and node.value.attr == "state"
        ):
            key = site.written(node.slice)
            if is_path(key):
                yield from add_move(
                    site, statement.value, f"{key}.device", "Move it to its parameter's device"
                )
    for device in site.at(statement).devices(wanted)[:MOST_DEVICES]:
        yield from add_move(site, statement.value, device)
