"""Edits of modules, and of what modules keep: registered, made once, moved where they are made."""

import ast
import os
from collections.abc import Iterator

from samedevice.model.diagnostic import Location
from samedevice.model.fix import Edit, Fix
from samedevice.model.scene import Scene
from samedevice.rules.mending import (
    MOST_DEVICES,
    add_move,
    call_in,
    enclosing,
    fix,
    is_path,
    keyword,
    receiver_of,
    to,
)
from samedevice.rules.mending_order import names_read, names_stored, sooner
from samedevice.rules.reading import empty_list, nn_name
from samedevice.rules.sites import Function, Site, Sites, Source, device_argument, parameters, stores
from samedevice.source import edits


def made_on(site: Site | None, scene: Scene, sites: Sites) -> Iterator[Fix]:
    """`.to(device)` behind the call that makes a module, or a move of its own before its first use."""
    if site is None:
        return
    call = call_in(site)
    if call is not None:
        for device in site.devices(scene.wanted)[:MOST_DEVICES]:
            yield from add_move(site, call, device)
    statement = site.statement
    if not (isinstance(statement, ast.Assign) and len(statement.targets) == 1):
        return
    target = site.written(statement.targets[0])
    if not is_path(target):
        return
    for frame in scene.frames:
        used = sites.at(frame.location)
        if used is None or used.scope is not site.scope or used.path != site.path:
            continue
        before = outermost(used, statement)
        if before is None:
            continue
        for device in used.at(before).devices(scene.wanted)[:MOST_DEVICES]:
            change = edits.insert_before(site.path, site.text, before, f"{target}{to(device)}")
            yield from fix(f"Move it to `{device}` before it is used", [change])


def outermost(site: Site, beside: ast.stmt) -> ast.stmt | None:
    """The statement around a site that stands in one block with `beside`, or outside all loops."""
    block = site.source.block(beside)
    statement = site.statement
    chain = [] if statement is None else [statement, *site.source.around(statement)]
    return next((n for n in chain if isinstance(n, ast.stmt) and n in block and n is not beside), None)


def as_buffer(site: Site | None) -> Iterator[Fix]:
    """`self.x = value` as `self.register_buffer("x", value, persistent=False)`."""
    found = attribute_stored(site)
    if site is None or found is None:
        return
    statement, target, value = found
    if isinstance(value, (ast.List, ast.Tuple, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)):
        return  # a buffer is one tensor
    yield from fix("Register it as a buffer", [*registration(site, statement, target, value)])


def registration(site: Site, statement: ast.stmt, target: ast.Attribute, value: ast.expr) -> list[Edit]:
    """The edits of `as_buffer`."""
    source = site.source.places
    start, end = source.start(value), source.end(value)
    if edits.in_parentheses(source, value):
        start = source.text.rindex("(", 0, start)
        _, where = edits.next_token(source.text, end, len(source.text))
        end = where + 1
    elif isinstance(value, ast.Tuple) and source.text[start] != "(":
        return []
    host = site.written(target.value)
    head = source.edit(site.path, source.start(statement), start, f'{host}.register_buffer("{target.attr}", ')
    return [head, source.edit(site.path, end, end, ", persistent=False)")]


def attribute_stored(site: Site | None) -> tuple[ast.stmt, ast.Attribute, ast.expr] | None:
    """A statement `host.name = value`."""
    statement = None if site is None else site.statement
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target, value = statement.targets[0], statement.value
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        target, value = statement.target, statement.value
    else:
        return None
    return (statement, target, value) if isinstance(target, ast.Attribute) else None


def as_parameter(site: Site | None) -> Iterator[Fix]:
    """`self.x = value.requires_grad_()` as an `nn.Parameter`."""
    found = attribute_stored(site)
    if site is None or found is None:
        return
    named = nn_class(site, "Parameter")
    _, _, value = found
    if named is None:
        return
    parameter, imported = named
    inner = receiver_of(value, "requires_grad_")
    if inner is not None:
        source = site.source.places
        start, stop = source.start(value), source.end(inner)
        if edits.in_parentheses(source, inner):
            stop = edits.next_token(source.text, stop, len(source.text))[1] + 1
        head = source.edit(site.path, start, start, f"{parameter}(")
        tail = source.edit(site.path, stop, source.end(value), ")")
        yield from fix("Make it a parameter", [*imported, head, tail])
        return
    wrapped = edits.wrap(site.path, site.text, value, f"{parameter}(", ")")
    yield from fix("Make it a parameter", [*imported, *wrapped])


def nn_class(site: Site, name: str) -> tuple[str, list[Edit]] | None:
    """How a class of `torch.nn` is called in a file, and the edit that makes it known where it is not."""
    prefix = nn_name(site.source.tree, deep=True)
    if prefix is not None:
        return f"{prefix}.{name}", []
    imports = [
        node
        for node in ast.walk(site.source.tree)
        if isinstance(node, ast.ImportFrom) and node.module == "torch.nn" and not node.level
    ]
    for node in imports:
        for alias in node.names:
            if alias.name in ("*", name):
                return alias.asname or name, []
    if not imports or name in names_stored(site.source.tree) | names_read(site.source.tree):
        return None
    source = site.source.places
    end = source.end(imports[0].names[-1])
    return name, [source.edit(site.path, end, end, f", {name}")]


def moved_inside(site: Site | None) -> Iterator[Fix]:
    """`nn.Parameter(x).to(d)` as `nn.Parameter(x.to(d))`; what needs gradients is created where it is needed."""
    move = None if site is None else site.node
    made = None if move is None else receiver_of(move, "to", "cuda")
    if site is None or not isinstance(move, ast.Call) or not isinstance(made, ast.Call):
        return
    device = device_argument(move)
    plain = len(move.args) <= 1 and all(k.arg in ("device", "non_blocking") for k in move.keywords)
    if device is None or not plain or edits.in_parentheses(site.source.places, made):
        return
    source = site.source.places
    cut = source.edit(site.path, source.end(made), source.end(move), "")
    inner = receiver_of(made, "requires_grad_")
    if inner is not None:
        changes = edits.method_call(site.path, site.text, inner, to(device))
        yield from fix("Move the tensor before it needs gradients", [*changes, cut])
    elif ast.unparse(made.func).rpartition(".")[2] == "Parameter" and made.args:
        changes = edits.method_call(site.path, site.text, made.args[0], to(device))
        yield from fix("Move the tensor, not the parameter", [*changes, cut])
    elif any(k.arg == "requires_grad" for k in made.keywords):
        change = edits.add_keyword(site.path, site.text, made, f"device={device}")
        yield from fix(f"Create it on `{device}`", [change, cut])


def late_buffer(site: Site | None) -> Iterator[Fix]:
    """An attribute that is `None` until a method fills it, as a buffer that is `None`."""
    found = attribute_stored(site)
    if site is None or found is None:
        return
    name = site.written(found[1])
    around = next((n for n in site.source.around(site.node) if isinstance(n, ast.ClassDef)), None)
    if around is None:
        return
    changes: list[Edit] = []
    for node in ast.walk(around):
        if not (isinstance(node, ast.Assign) and len(node.targets) == 1):
            continue
        target, value = node.targets[0], node.value
        if not (isinstance(value, ast.Constant) and value.value is None):
            continue
        if isinstance(target, ast.Attribute) and site.written(target) == name:
            changes += registration(site, node, target, value)
    yield from fix("Register it as a buffer", changes)


def as_container(site: Site | None) -> Iterator[Fix]:
    """`nn.ModuleList` or `nn.ModuleDict` in place of a plain list or dictionary."""
    statement = None if site is None else site.statement
    if site is None or statement is None:
        return
    if isinstance(statement, ast.Expr):
        statement = empty_list(site.source.tree, statement)
    value = getattr(statement, "value", None)
    if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or not isinstance(value, ast.expr):
        return
    is_dict = isinstance(value, (ast.Dict, ast.DictComp))
    name = "ModuleDict" if is_dict else "ModuleList"
    named = nn_class(site, name)
    if named is None:
        return
    kind, imported = named
    title = f"Make it an `nn.{name}`"
    if (isinstance(value, ast.List) and not value.elts) or (isinstance(value, ast.Dict) and not value.keys):
        yield from fix(title, [*imported, edits.replace(site.path, site.text, value, f"{kind}()")])
    elif isinstance(value, (ast.List, ast.ListComp, ast.Dict, ast.DictComp)) or (
        isinstance(value, ast.Tuple) and site.written(value).startswith("(")
    ):
        yield from fix(title, [*imported, *edits.wrap(site.path, site.text, value, f"{kind}(", ")")])
    if is_dict:
        yield from registered_beside(site)


def registered_beside(site: Site) -> Iterator[Fix]:
    """The modules of a dictionary registered once more, where its keys are none that `nn.ModuleDict` takes."""
    found = attribute_stored(site)
    around = next((n for n in site.source.around(site.node) if isinstance(n, ast.ClassDef)), None)
    named = nn_class(site, "ModuleList")
    if found is None or around is None or named is None:
        return
    statement, target, value = found
    name = f"{target.attr}_modules"
    if (isinstance(value, ast.Dict) and not value.keys) or name in {
        n.attr for n in ast.walk(around) if isinstance(n, ast.Attribute)
    }:
        return
    held = site.written(target)
    line = f"{site.written(target.value)}.{name} = {named[0]}({held}.values())"
    change = edits.insert_after(site.path, site.text, statement, line)
    title = f"Register the modules of `{held}`, whose keys `nn.ModuleDict` does not take"
    yield from fix(title, [*named[1], change])


def into_constructor(site: Site | None, name: str) -> Iterator[Fix]:
    """A module that `forward` builds, built by `__init__` and called by `forward`."""
    call = None if site is None else call_in(site)
    if site is None or call is None:
        return
    around = next((n for n in site.source.around(call) if isinstance(n, ast.ClassDef)), None)
    if around is None:
        return
    init = next((f for f in around.body if isinstance(f, ast.FunctionDef) and f.name == "__init__"), None)
    if init is None or not init.args.args:
        return
    own = init.args.args[0].arg
    local = set(stores(site.scope)) | (parameters(site.scope) - {own})
    used = {n.id for n in ast.walk(call) if isinstance(n, ast.Name)}
    taken = {n.attr for n in ast.walk(around) if isinstance(n, ast.Attribute)}
    if used & local or init.body[-1].lineno == init.lineno:
        return
    name = f"{name}_" if name in taken else name
    written = site.written(call)
    line = f"{own}.{name} = {ast.unparse(call) if len(written.splitlines()) > 1 else written}"
    yield from fix(
        f"Build it once, in `{around.name}.__init__`",
        [
            edits.insert_after(site.path, site.text, init.body[-1], line),
            edits.replace(site.path, site.text, call, f"{own}.{name}"),
        ],
    )


def reset_after(sites: Sites, move: Location | None, method: str | None) -> Iterator[Fix]:
    """A call of the method that makes the carried state, behind the move."""
    mover = sites.at(move)
    call, statement = (None, None) if mover is None else (mover.node, mover.statement)
    if mover is None or statement is None or method is None or method.startswith("__"):
        return
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
        return
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = mover.written(statement.targets[0])
    else:
        target = mover.written(call.func.value)
    for definition in ast.walk(mover.source.tree):
        if isinstance(definition, ast.FunctionDef) and definition.name == method:
            needed = len(definition.args.args) - len(definition.args.defaults) - 1
            if needed > 0 or any(d is None for d in definition.args.kw_defaults):
                return
    if is_path(target):
        change = edits.insert_after(mover.path, mover.text, statement, f"{target}.{method}()")
        yield from fix(f"Begin anew after the move: `{target}.{method}()`", [change])


def one_choice(site: Site | None, other: str) -> Iterator[Fix]:
    """A second choice of device replaced by an import of the first."""
    statement = None if site is None else site.statement
    module, _, name = other.rpartition(".")
    if site is None or statement is None or not module:
        return
    top = statement
    for node in site.source.around(statement):
        if isinstance(node, ast.If):
            top = node
    stored = names_stored(top)
    assigns = [n for n in ast.walk(top) if isinstance(n, ast.stmt) and not isinstance(n, ast.If)]
    if top not in site.source.tree.body or len(stored) != 1:
        return
    if not all(isinstance(n, ast.Assign) for n in assigns):
        return
    mine = next(iter(stored))
    renamed = "" if mine == name else f" as {mine}"
    package = os.path.dirname(site.path).replace(os.sep, ".")
    relative = package and module.startswith(f"{package}.")
    origin = f".{module.removeprefix(f'{package}.')}" if relative else module
    change = edits.replace(site.path, site.text, top, f"from {origin} import {name}{renamed}")
    yield from fix(f"Use the device of `{module}`", [change])


def whole_layers(site: Site | None) -> Iterator[Fix]:
    """A device map whose entries cut a layer in two, with one entry for the layer."""
    statement = None if site is None else site.statement
    if site is None or statement is None:
        return
    for mapping in ast.walk(statement):
        if not isinstance(mapping, ast.Dict):
            continue
        groups: dict[str, list[int]] = {}
        for i, key in enumerate(mapping.keys):
            if isinstance(key, ast.Constant) and isinstance(key.value, str) and "." in key.value:
                groups.setdefault(key.value.rpartition(".")[0], []).append(i)
        changes: list[Edit | None] = []
        for layer, numbers in groups.items():
            devices = {ast.unparse(mapping.values[i]) for i in numbers}
            if len(numbers) < 2 or len(devices) < 2 or numbers != list(range(numbers[0], numbers[-1] + 1)):
                continue
            first, last = mapping.keys[numbers[0]], mapping.values[numbers[-1]]
            assert first is not None
            source = site.source.places
            kept = site.written(mapping.values[numbers[0]])
            quote = site.written(first)[0]
            between = source.text[source.start(first) : source.end(last)]
            if "#" in between or quote not in "'\"":
                continue
            changes.append(
                source.edit(
                    site.path, source.start(first), source.end(last), f"{quote}{layer}{quote}: {kept}"
                )
            )
        yield from fix("Keep each layer on one GPU", changes)


def moved_back(site: Site | None) -> Iterator[Fix]:
    """A module that a function takes elsewhere goes back to where it was when the function ends."""
    call = None if site is None else site.node
    function = None if site is None else enclosing(site)
    if site is None or function is None or not isinstance(call, ast.Call):
        return
    statement = site.statement
    if not isinstance(call.func, ast.Attribute) or statement is None or statement not in function.body:
        return
    target = site.written(call.func.value)
    if not is_path(target) or site.loops():
        return
    last = function.body[-1]
    if any(isinstance(n, ast.Return) for s in function.body[:-1] for n in ast.walk(s)):
        return
    name = (
        "device"
        if "device" not in names_read(function) | names_stored(function) | parameters(function)
        else "home"
    )
    before = edits.insert_before(
        site.path, site.text, statement, f"{name} = next({target}.parameters()).device"
    )
    back = f"{target}.to({name})"
    if (
        isinstance(last, ast.Return)
        and last.value is not None
        and target.partition(".")[0] in names_read(last)
    ):
        # What it returns is computed from the module where it is now.
        after = kept_result(site, function, last, back)
    elif isinstance(last, ast.Return):
        after = [edits.insert_before(site.path, site.text, last, back)]
    else:
        after = [edits.insert_after(site.path, site.text, last, back)]
    yield from fix(f"Move `{target}` back when `{function.name}` ends", [before, *after])


def kept_result(site: Site, function: Function, last: ast.Return, line: str) -> list[Edit | None]:
    """`return value` as `result = value`, a line between, and `return result`."""
    taken = names_read(function) | names_stored(function) | parameters(function)
    name = next(n for n in ("result", "results", "returned", "kept_result") if n not in taken)
    source = site.source.places
    start = source.start(last)
    word = source.edit(site.path, start, start + len("return"), f"{name} =")
    behind = f"{line}\nreturn {name}"
    indent = edits.indentation(source, last)
    if indent is None:
        return [None]
    return [word, edits.insert_after(site.path, site.text, last, behind.replace("\n", "\n" + indent))]


def before_tracing(site: Site | None, wanted: str | None) -> Iterator[Fix]:
    """The model and the example are moved before the trace."""
    call = None if site is None else call_in(site)
    if site is None or call is None or len(call.args) < 2:
        return
    model, example = call.args[:2]
    examples = example.elts if isinstance(example, ast.Tuple) else [example]
    # What is known of the model is where it is now, after the trace.
    own = names_read(model) | names_read(example)
    here = [d for d in site.devices(wanted) if not own & names_read(ast.parse(d))][:MOST_DEVICES]
    choices: list[tuple[str, list[Edit]]] = [*((d, []) for d in here), *sooner(site)]
    for device, before in choices:
        moves = [
            e
            for value in (model, *examples)
            for e in edits.method_call(site.path, site.text, value, to(device))
        ]
        title = f"Move the model and the example to `{device}` before tracing"
        yield from fix(title, [*before, *moves])


def made_again(sites: Sites, loaded: Location | None, path: str, made: Location | None) -> Iterator[Fix]:
    """A buffer that no checkpoint holds, computed anew behind the loading as its module computed it."""
    site = sites.at(loaded)
    host, _, name = path.rpartition(".")
    statement = None if site is None else site.statement
    if site is None or statement is None or not host or not is_path(host) or not site.has(host):
        return
    files = [s for s in (site.source, None if made is None else sites.source(made.path)) if s is not None]
    for source in dict.fromkeys(files):
        for call in ast.walk(source.tree):
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
                continue
            if call.func.attr != "register_buffer" or len(call.args) < 2:
                continue
            first, value = call.args[:2]
            if not (isinstance(first, ast.Constant) and first.value == name):
                continue
            text = of_other_host(source, value, ast.unparse(call.func.value), host)
            if text is not None and site.has(text):
                change = edits.insert_after(site.path, site.text, statement, f"{path} = {text}")
                yield from fix(f"Compute `{name}` again after loading", [change])


def assigned_state(site: Site | None) -> Iterator[Fix]:
    """`load_state_dict(state, assign=True)`: copied into tensors without data the state is lost."""
    if site is not None and receiver_of(site.node, "load_state_dict") is not None:
        yield from keyword(site, "assign", ["True"], "Take the loaded tensors themselves (`assign=True`)")


def built_for_real(site: Site | None, scene: Scene, move: Location | None, sites: Sites) -> Iterator[Fix]:
    """A model that nothing ever fills, built where it is used: its layers initialise themselves there."""
    block = None if site is None else site.statement
    if site is None or not isinstance(block, ast.With):
        return
    metas = [
        n
        for item in block.items
        for n in ast.walk(item.context_expr)
        if isinstance(n, ast.Constant) and n.value == "meta"
    ]
    if len(metas) != 1:
        return
    mover = sites.at(move)
    named = None if mover is None or not isinstance(mover.node, ast.Call) else device_argument(mover.node)
    around = [named] if named is not None else []
    for device in list(dict.fromkeys([*around, *site.devices(scene.wanted)]))[:MOST_DEVICES]:
        if site.has(device) and device.strip("'\"") != "meta":
            change = edits.replace(site.path, site.text, metas[0], device)
            yield from fix(f"Build it on `{device}`, where its layers get their values", [change])


def of_other_host(source: Source, value: ast.expr, own: str, host: str) -> str | None:
    """An expression over `self` and names of the module, written for another name of the object."""
    local = set(stores(source.scope(value))) | parameters(source.scope(value))
    if own not in local or (names_read(value) & local) - {own}:
        return None
    renamed = ast.parse(ast.unparse(value), mode="eval")
    for node in ast.walk(renamed):
        if isinstance(node, ast.Name) and node.id == own:
            node.id = host
    return ast.unparse(renamed)
