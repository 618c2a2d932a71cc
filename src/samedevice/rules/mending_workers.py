"""Edits for worker processes: what a forked one must not do is done by the main process, or the process is spawned."""

import ast
from collections.abc import Iterator
from typing import Final

from samedevice.model.diagnostic import Location
from samedevice.model.fix import Edit, Fix
from samedevice.model.scene import Scene
from samedevice.rules.mending import MOST_DEVICES, enclosing, fix, keyword, receiver_of, to
from samedevice.rules.mending_order import names_read, names_stored
from samedevice.rules.sites import Function, Site, Sites, device_argument, own_nodes, source_text
from samedevice.source import edits

#: what names a way of starting processes
STARTERS: Final = ("set_start_method", "get_context", "start_processes")
CONTEXTS: Final = ("multiprocessing_context", "start_method", "mp_context", "method", "context")


def in_main_process(scene: Scene, worker: Location | None, sites: Sites) -> Iterator[Fix]:
    """The moves taken out of the worker's function, and made in the loop that receives what it returns."""
    inside, outside = sites.at(worker), sites.at(scene.raised)
    function = None if inside is None else enclosing(inside)
    if inside is None or outside is None or function is None:
        return
    found = moves_of(inside, function)
    if found is None:
        return
    moves, changes = found
    statement = outside.statement
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        target: ast.expr = statement.target
        body: ast.AST = statement.body[0]
        if (
            is_call_of(statement.iter, "enumerate")
            and isinstance(target, ast.Tuple)
            and len(target.elts) == 2
        ):
            target = target.elts[1]
    elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = body = statement.targets[0]
    else:
        return
    named = [d for m in moves if (d := device_argument(m)) is not None and outside.at(body).has(d)]
    devices = list(dict.fromkeys([*named, *outside.at(body).devices(None)]))[:MOST_DEVICES]
    received = list(dict.fromkeys([*received_moved(function, moves, target), *received_whole(target)]))
    for names in received:
        for device in devices:
            line = f"{', '.join(names)} = {', '.join(n + to(device) for n in names)}"
            if isinstance(statement, ast.For):
                change = edits.insert_first(outside.path, outside.text, statement, line)
            else:
                change = edits.insert_after(outside.path, outside.text, statement, line)
            title = f"Move to `{device}` in the main process, not in the worker"
            yield from fix(title, [*changes, change])


def moves_of(site: Site, function: Function) -> tuple[list[ast.Call], list[Edit]] | None:
    """What a function puts on a GPU, and the edits that leave it where it is; None when that is not plain."""
    moves: list[ast.Call] = []
    changes: list[Edit | None] = []
    source = site.source.places
    for node in own_nodes(function):
        if not isinstance(node, ast.Call):
            continue
        device = device_argument(node)
        if device is None or device.strip("'\"") == "cpu":
            continue
        moves.append(node)
        receiver = receiver_of(node, "to", "cuda")
        if receiver is None:
            changes.append(edits.without_keyword(site.path, site.text, node, "device"))
        elif len(node.args) > 1 or any(k.arg not in ("device", "non_blocking") for k in node.keywords):
            return None  # it changes the type as well
        else:
            end = source.end(receiver)
            if edits.in_parentheses(source, receiver):
                end = edits.next_token(source.text, end, len(source.text))[1] + 1
            changes.append(source.edit(site.path, end, source.end(node), ""))
    made = [c for c in changes if c is not None]
    return (moves, made) if made and len(made) == len(changes) else None


def received_moved(function: Function, moves: list[ast.Call], target: ast.expr) -> Iterator[tuple[str, ...]]:
    """The parts of what the loop receives that the worker's function moved."""
    returns = [n.value for n in own_nodes(function) if isinstance(n, ast.Return) and n.value is not None]
    if len(returns) != 1:
        return
    moved: set[str] = set()
    for node in sorted((n for n in own_nodes(function) if isinstance(n, ast.Assign)), key=lambda n: n.lineno):
        if any(n in moves for n in ast.walk(node.value)) or names_read(node.value) & moved:
            moved |= names_stored(node)

    def is_moved(part: ast.expr) -> bool:
        return any(n in moves for n in ast.walk(part)) or bool(names_read(part) & moved)

    value = returns[0]
    if isinstance(value, ast.Tuple) and isinstance(target, ast.Tuple) and len(value.elts) == len(target.elts):
        pairs = zip(value.elts, target.elts, strict=True)
        names = tuple(t.id for v, t in pairs if is_moved(v) and isinstance(t, ast.Name))
    elif isinstance(value, (ast.Tuple, ast.List)) and isinstance(target, ast.Name):
        names = tuple(f"{target.id}[{i}]" for i, v in enumerate(value.elts) if is_moved(v))
    elif isinstance(value, ast.Dict) and isinstance(target, ast.Name):
        keys = zip(value.keys, value.values, strict=True)
        names = tuple(
            f"{target.id}[{source_text(k)}]" for k, v in keys if isinstance(k, ast.Constant) and is_moved(v)
        )
    else:
        return
    if names:
        yield names


def received_whole(target: ast.expr) -> Iterator[tuple[str, ...]]:
    """Every name that the loop gives to what it receives."""
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    names = tuple(p.id for p in parts if isinstance(p, ast.Name) and p.id != "_")
    if names and len(names) == len([p for p in parts if not (isinstance(p, ast.Name) and p.id == "_")]):
        yield names


def is_call_of(node: ast.AST, *names: str) -> bool:
    """A call of one of these functions."""
    return isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in names


def without_workers(scene: Scene, sites: Sites) -> Iterator[Fix]:
    """`num_workers=0`: the main process loads."""
    site = sites.at(scene.raised)
    statement = None if site is None else site.statement
    if site is None or statement is None:
        return
    header = statement.iter if isinstance(statement, (ast.For, ast.AsyncFor)) else statement
    names = names_read(header)
    for call in ast.walk(site.source.tree):
        if not (isinstance(call, ast.Call) and any(k.arg == "num_workers" for k in call.keywords)):
            continue
        kept = site.source.statement(call)
        is_read = isinstance(kept, ast.Assign) and bool(names_stored(kept) & names)
        if is_read or any(n is call for n in ast.walk(header)):
            yield from keyword(site.at(call), "num_workers", ["0"], "Load in the main process")


def spawned(scene: Scene, sites: Sites) -> Iterator[Fix]:
    """Processes that are spawned, not forked."""
    for path in dict.fromkeys(f.location.path for f in scene.frames if f.package is None):
        source = sites.source(path)
        if source is None:
            continue
        asked = [
            value
            for call in ast.walk(source.tree)
            if isinstance(call, ast.Call)
            for value in [
                *(call.args if is_call_of(call, *STARTERS) else []),
                *(k.value for k in call.keywords if k.arg in CONTEXTS),
            ]
            if isinstance(value, ast.Constant) and value.value == "fork"
        ]
        changes = [edits.replace(path, source.text, value, '"spawn"') for value in asked]
        yield from fix("Spawn the processes", changes)
        if asked:
            continue
        module = multiprocessing_name(source.tree)
        if module is None:
            continue
        for call in ast.walk(source.tree):
            if is_call_of(call, "Pool", "Process") and isinstance(call, ast.Call):
                function = call.func
                if isinstance(function, ast.Attribute) and ast.unparse(function.value) == module:
                    changes.append(
                        edits.replace(path, source.text, function.value, f'{module}.get_context("spawn")')
                    )
            elif is_call_of(call, "ProcessPoolExecutor") and isinstance(call, ast.Call):
                context = f'mp_context={module}.get_context("spawn")'
                change = edits.add_keyword(path, source.text, call, context)
                changes += [] if change is None else [change]
        yield from fix("Spawn the processes", changes)


def multiprocessing_name(tree: ast.Module) -> str | None:
    """How a file calls `multiprocessing`, or PyTorch's own, which has the same functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in ("multiprocessing", "torch.multiprocessing"):
                    return alias.asname or alias.name
        elif isinstance(node, ast.ImportFrom) and node.module == "torch" and not node.level:
            for alias in node.names:
                if alias.name == "multiprocessing":
                    return alias.asname or alias.name
    return None
