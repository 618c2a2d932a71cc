"""Edits that change the order of statements: a move in front of what needs it, or behind what it must reach."""

import ast
from collections.abc import Iterator

from samedevice.model.diagnostic import Location
from samedevice.model.fix import Edit, Fix
from samedevice.model.scene import Step
from samedevice.rules.mending import add_move, fix, is_path
from samedevice.rules.sites import Site, Sites, device_argument, stores
from samedevice.source import edits


def reorder(sites: Sites, first: Location | None, second: Location | None, title: str) -> Iterator[Fix]:
    """The later of two statements before the earlier one, or the earlier behind the later."""
    one, two = sites.at(first), sites.at(second)
    if one is None or two is None or one.path != two.path or one.scope is not two.scope:
        return
    pair = in_one_block(one, two)
    if pair is None:
        return
    a, b, block = pair
    between = block[block.index(a) : block.index(b)]
    reads = names_read(b)
    if not any(reads & names_stored(s) for s in between):
        yield from fix(title, edits.relocate(one.path, one.text, b, a))
    following = block[block.index(b) + 1 :]
    inner = block[block.index(a) + 1 : block.index(b) + 1]
    if following and not any((names_read(s) | names_stored(s)) & names_stored(a) for s in inner):
        yield from fix(title, edits.relocate(one.path, one.text, a, following[0]))


def in_one_block(one: Site, two: Site) -> tuple[ast.stmt, ast.stmt, list[ast.stmt]] | None:
    """The statements of one block that contain the two, the first of which comes first."""
    start, end = one.statement, two.statement
    if start is None or end is None:
        return None
    above = [n for n in (start, *one.source.around(start)) if isinstance(n, ast.stmt)]
    below = [n for n in (end, *two.source.around(end)) if isinstance(n, ast.stmt)]
    for a in above:
        block = one.source.block(a)
        for b in below:
            if b in block and a is not b and block.index(a) < block.index(b):
                return a, b, block
    return None


def names_read(statement: ast.AST) -> set[str]:
    """Names that a statement reads."""
    return {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def names_stored(statement: ast.AST) -> set[str]:
    """Names that a statement binds."""
    stored = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        stored.add(statement.name)
    for node in ast.walk(statement):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            stored |= {a.asname or a.name.partition(".")[0] for a in node.names}
    return stored


def once_more(sites: Sites, move: Location | None, after: Location | None) -> Iterator[Fix]:
    """The move of a module behind what was added to it."""
    mover, adder = sites.at(move), sites.at(after)
    if mover is None or adder is None or mover.path != adder.path or mover.scope is not adder.scope:
        return
    pair = in_one_block(mover, adder)
    if pair is None:
        return
    moving, adding, block = pair
    following = block[block.index(adding) + 1 :]
    between = block[block.index(moving) + 1 : block.index(adding)]
    title = "Move the model after everything was added to it"
    if isinstance(moving, ast.Expr) and following:
        name = names_read(moving)
        if not any(name & names_stored(s) for s in between):
            yield from fix(title, edits.relocate(mover.path, mover.text, moving, following[0]))
    call = mover.node
    if (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in ("to", "cuda")
    ):
        statement = mover.statement
        target = mover.written(call.func.value)
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = mover.written(statement.targets[0])
        if is_path(target):
            end = mover.source.places
            rest = end.text[end.end(call.func.value) : end.end(call)].strip()
            if "\n" in rest or "\r" in rest:
                given = [ast.unparse(node) for node in (*call.args, *call.keywords)]
                rest = f".{call.func.attr}({', '.join(given)})"
            change = edits.insert_after(mover.path, mover.text, adding, f"{target}{rest}")
            yield from fix(title, [change])


def original_first(sites: Sites, copied: Step, moved: Step) -> Iterator[Fix]:
    """A move of what is copied, where the call inside which it is copied is given it.

    `Ema(Net()).to(device)` copies the network before it can move; `Ema(Net().to(device)).to(device)` does not.
    """
    trail = copied.trail
    pairs = enumerate(zip(trail, moved.trail, strict=False))
    at = next((i for i, (one, other) in pairs if one.location != other.location), None)
    if at is None or len(moved.trail) != at + 1 or len(trail) < at + 2:
        return
    mover, inner = sites.at(moved.trail[at].location), sites.at(trail[-1].location)
    if mover is None or inner is None or not isinstance(mover.node, ast.Call):
        return
    device = device_argument(mover.node)
    value, site = _deep_copied(inner), inner
    for frame in reversed(trail[at:-1]):
        outer = sites.at(frame.location)
        if outer is None or not isinstance(value, ast.Name) or value.id in stores(site.scope):
            return
        value, site = given(outer.node, site, value.id), outer
    if value is not None and device is not None and site.scope is mover.scope and site.has(device):
        yield from add_move(site, value, device, "Move the original before it is copied")


def _deep_copied(site: Site) -> ast.expr | None:
    """What the only `deepcopy` of a site copies."""
    calls = [
        n
        for n in ast.walk(site.node)
        if isinstance(n, ast.Call) and ast.unparse(n.func).rpartition(".")[2] == "deepcopy" and n.args
    ]
    return calls[0].args[0] if len(calls) == 1 else None


def given(call: ast.AST, inside: Site, name: str) -> ast.expr | None:
    """What a call gives for a parameter of the function around a site."""
    function = inside.scope
    if not isinstance(call, ast.Call) or not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return None
    if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
        return None
    named = next((k.value for k in call.keywords if k.arg == name), None)
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    static = any(ast.unparse(d) == "staticmethod" for d in function.decorator_list)
    if isinstance(inside.source.parents.get(function), ast.ClassDef) and not static:
        names = names[1:]
    if named is None and name in names and names.index(name) < len(call.args):
        return call.args[names.index(name)]
    return named


def sooner(site: Site) -> Iterator[tuple[str, list[Edit]]]:
    """Devices that get their name only further down in the same block, with the edits that bring it up."""
    statement = site.statement
    block = [] if statement is None else site.source.block(statement)
    if statement is None or not block:
        return
    following = block[block.index(statement) :]
    named = {
        text
        for later in following
        for call in ast.walk(later)
        if isinstance(call, ast.Call) and (text := device_argument(call)) is not None
    }
    for number, later in enumerate(following[1:], 1):
        if not (isinstance(later, ast.Assign) and len(later.targets) == 1):
            continue
        target = later.targets[0]
        if not isinstance(target, ast.Name) or target.id not in named:
            continue
        if any(names_read(later) & names_stored(s) for s in following[:number]):
            continue
        changes = edits.relocate(site.path, site.text, later, statement)
        if changes is not None:
            yield target.id, changes
