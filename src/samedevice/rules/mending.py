"""The edits that take out a mistake which a run has shown; rules choose among them, the best first.

Nothing here is certain: `check --fix` makes an edit, runs the program again, and takes it back when
the problem is still there. So a builder gives what is likely right and nothing that cannot parse.
"""

import ast
from collections.abc import Iterable, Iterator, Sequence

from samedevice.model.fix import Applicability, Edit, Fix
from samedevice.model.scene import Scene
from samedevice.rules.mutation import written_to
from samedevice.rules.sites import Function, Site, Sites, device_argument, own_nodes
from samedevice.source import edits

#: factories whose numbers depend on the device on which they are drawn
RANDOM = ("rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial", "empty")

#: what gives a tensor without being asked where
NO_FACTORIES = ("from_numpy", "frombuffer", "load", "load_audio", "to", "cuda", "cpu")

#: what takes a list of tensors
JOINS = ("cat", "concat", "stack", "hstack", "vstack")

#: how many expressions for a device are tried
MOST_DEVICES = 3


def fix(title: str, changes: Iterable[Edit | None] | None, *, safe: bool = False) -> Iterator[Fix]:
    """One fix of edits that must all exist; nothing otherwise."""
    made = [] if changes is None else list(changes)
    if made and all(made):
        kind = Applicability.SAFE if safe else Applicability.UNSAFE
        yield Fix(title, kind, tuple(e for e in made if e is not None))


def to(device: str) -> str:
    """The move to a device."""
    return f".to({device})"


def add_move(site: Site, value: ast.expr, device: str, title: str | None = None) -> Iterator[Fix]:
    """`.to(device)` behind an expression."""
    title = title or f"Move it to `{device}`"
    yield from fix(title, moving(site, value, device))


def names_device(text: str | None) -> bool:
    """Whether an argument of `to` is certainly a device: a tensor or an element type would do more."""
    if text is None:
        return False
    last = text.rpartition(".")[2].lower()
    return text[0] in "'\"" or text.isdigit() or any(word in last for word in ("dev", "gpu", "rank", "cuda"))


def moving(site: Site, value: ast.expr, device: str) -> list[Edit]:
    """The edits of a move behind an expression; a move that is there already names another device instead."""
    receiver = receiver_of(value, "to", "cuda")
    if isinstance(value, ast.Call) and receiver is not None and not value.keywords and len(value.args) <= 1:
        named = names_device(device_argument(value))
        if named and value.args and receiver_of(value, "to") is not None:
            return [edits.replace(site.path, site.text, value.args[0], device)]
        source = site.source.places
        if named and not edits.in_parentheses(source, receiver):
            return [source.edit(site.path, source.end(receiver), source.end(value), to(device))]
    return edits.method_call(site.path, site.text, value, to(device))


def on_device(site: Site | None, wanted: str | None) -> Iterator[Fix]:
    """`device=` on a factory call, following what is already right; a move where the call takes none."""
    if site is None:
        return
    call = call_in(site)
    if call is None:
        return
    function = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if function in ("eval", "exec"):
        return  # what it makes stands in its text
    own = device_argument(call)
    for device in [d for d in site.devices(wanted, follow=True) if d != own][:MOST_DEVICES]:
        title = f"Create it on `{device}`"
        given = next((k for k in call.keywords if k.arg == "device"), None)
        generated = any(k.arg == "generator" for k in call.keywords)
        takes = function not in NO_FACTORIES and not function.endswith("Tensor")
        if given is not None:
            yield from fix(title, [edits.replace(site.path, site.text, given.value, device)])
        elif takes and not generated:
            safe = device.endswith(".device") and function not in RANDOM
            change = edits.add_keyword(site.path, site.text, call, f"device={device}")
            yield from fix(title, [change], safe=safe)
        yield from add_move(site, call, device)


def call_in(site: Site) -> ast.Call | None:
    """The call at a site: the node itself, or the only value of its statement."""
    node = site.node
    if isinstance(node, (ast.Assign, ast.AnnAssign, ast.Return, ast.Expr)):
        node = node.value or node
    return node if isinstance(node, ast.Call) else None


def keyword(site: Site | None, name: str, values: Sequence[str], title: str) -> Iterator[Fix]:
    """`name=value` on the call at a site, in place of another value when one is given."""
    call = None if site is None else call_in(site)
    if site is None or call is None:
        return
    for value in values:
        given = next((k for k in call.keywords if k.arg == name), None)
        if given is not None:
            yield from fix(title, [edits.replace(site.path, site.text, given.value, value)])
        else:
            yield from fix(title, [edits.add_keyword(site.path, site.text, call, f"{name}={value}")])


def at_use(scene: Scene, sites: Sites, expression: str | None = None) -> Iterator[Fix]:
    """The move of the operand in the failing call, to the device of what it meets there."""
    site, stray = sites.at(scene.raised), scene.stray_operand
    text = expression or (stray.expression if stray is not None else None)
    if site is None or scene.wanted is None or scene.wanted == "cpu":
        return
    if not text and stray is not None and stray.path:
        yield from each_of(site, stray.path, scene.wanted)
    if not text:
        return
    found = same_expressions(site, text)
    if not found:
        if is_written_to(site, text):
            yield from partner_to_stray(scene, sites)
        return
    partners = [
        f"{o.expression}.device"
        for o in scene.operands
        if o.device == scene.wanted and o.expression and o.expression != text and is_path(o.expression)
    ]
    called = [
        f"next({ast.unparse(n.func)}.parameters()).device"
        for n in ast.walk(site.node)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and found[0] in n.args
        if any(m.owner.endswith("." + n.func.attr) for m in scene.modules)
    ]
    weights = [
        f"{ast.unparse(n.func)}.weight.device"
        for n in ast.walk(site.node)
        if isinstance(n, ast.Call) and found[0] in n.args and is_own_part(n.func)
    ]
    known = site.devices(scene.wanted, follow=True)
    beside = [
        f"{name}.device"
        for name in dict.fromkeys(site.written(n) for n in ast.walk(site.node) if isinstance(n, ast.expr))
        if name != text and f"{name}.device" in known
    ]
    partners.sort(key=lambda text: (text.endswith((".weight.device", ".bias.device")), ".bias." in text))
    choices = dict.fromkeys([*partners, *beside, *weights, *called, *known])
    every = _in_statement(site, text) or found
    for device in list(choices)[:MOST_DEVICES]:
        changes = [e for node in every for e in moving(site, node, device)]
        yield from fix(f"Move it to `{device}` where it is used", changes)


def each_of(site: Site, text: str, wanted: str) -> Iterator[Fix]:
    """`torch.cat(parts)` of parts that are all moved, when the call names only the list of them."""
    name, _, number = text.removesuffix("]").partition("[")
    call = site.node
    if not (number.isdigit() and isinstance(call, ast.Call) and call.args):
        return
    if ast.unparse(call.func).rpartition(".")[2] not in JOINS or ast.unparse(call.args[0]) != name:
        return
    for device in site.devices(wanted, follow=True)[:MOST_DEVICES]:
        change = edits.replace(site.path, site.text, call.args[0], f"[part{to(device)} for part in {name}]")
        yield from fix(f"Move all of `{name}` to `{device}` where they are joined", [change])


def _in_statement(site: Site, text: str) -> list[ast.expr]:
    """All reads of a name or attribute in the statement of the failing call: the next one would fail as well."""
    statement = site.statement
    if statement is None or hasattr(statement, "body") or not is_path(text):
        return []
    return same_expressions(site.at(statement), text)


def is_own_part(node: ast.expr) -> bool:
    """`self.layer` as something that is called."""
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def is_path(text: str) -> bool:
    """A name, or attributes of a name."""
    return all(part.isidentifier() for part in text.split("."))


def is_written_to(site: Site, text: str) -> bool:
    """Whether the statement at a site changes what `text` reads."""
    statement = site.statement
    changed = written_to(site.node if statement is None else statement)
    return any(ast.unparse(node) == text for node in changed)


def same_expressions(site: Site, text: str) -> list[ast.expr]:
    """The expressions of a site that read what `text` reads; none when it is changed there, as a copy would be."""
    try:
        wanted = ast.unparse(ast.parse(text.strip(), mode="eval").body)
    except SyntaxError:
        return []
    if is_written_to(site, wanted):
        return []
    found: list[ast.expr] = []
    for node in ast.walk(site.node):
        if node is site.node and not isinstance(node, (ast.Name, ast.Attribute, ast.Call)):
            continue
        stored = isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del))
        if not isinstance(node, ast.expr) or stored or ast.unparse(node) != wanted:
            continue
        if not any(n is node for f in found for n in ast.walk(f)):
            found.append(node)
    # The function of a call is no operand.
    functions = {id(n.func) for n in ast.walk(site.node) if isinstance(n, ast.Call)}
    return [n for n in found if id(n) not in functions and n is not site.node]


def to_host(scene: Scene, sites: Sites, expression: str | None, title: str) -> Iterator[Fix]:
    """`.cpu()` behind an operand that must be on the host; every plain argument is tried when it has no name."""
    site = sites.at(scene.raised)
    if site is None:
        return
    receiver = receiver_of(site.node, "numpy", "__array__", "tolist")
    if expression:
        nodes = same_expressions(site, expression)[:1]
    elif receiver is None and isinstance(site.node, ast.Call):
        given = [*site.node.args, *[k.value for k in site.node.keywords]]
        nodes = [n for n in given if isinstance(n, (ast.Name, ast.Attribute, ast.Subscript))]
        nodes.sort(key=lambda node: "len" not in site.written(node))
    else:
        nodes = []
    for node in [*nodes, *([] if receiver is None else [receiver])]:
        yield from fix(title, edits.method_call(site.path, site.text, node, ".cpu()"), safe=True)


def receiver_of(node: ast.AST, *methods: str) -> ast.expr | None:
    """What one of these methods is called on, None when the node is no such call."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in methods:
        return node.func.value
    return None


def assigned(site: Site | None) -> Iterator[Fix]:
    """`x.to(device)` as a statement becomes `x = x.to(device)`."""
    statement = None if site is None else site.statement
    if site is None or not isinstance(statement, ast.Expr):
        return
    change = edits.assign_result(site.path, site.text, statement)
    yield from fix("Assign the moved copy", [change], safe=False)


def other_device(site: Site | None, wanted: str | None, extra: Sequence[str] = ()) -> Iterator[Fix]:
    """Another device in the call that puts something in the wrong place."""
    if site is None or wanted is None:
        return
    call = site.node
    literals = [] if wanted == "cpu" else [f'"{wanted}"']
    choices = list(dict.fromkeys([*extra, *site.devices(wanted)[:MOST_DEVICES], *literals]))
    if isinstance(call, ast.Constant) and isinstance(call.value, str):
        for device in choices:
            yield from fix(f"Name `{device}` here", [edits.replace(site.path, site.text, call, device)])
        return
    if not isinstance(call, ast.Call):
        return
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    given = next((k.value for k in call.keywords if k.arg == "device"), None)
    if given is None and method == "to" and call.args:
        given = call.args[0]
    moved = receiver_of(call, "cpu")
    own = None if moved is None else f"{ast.unparse(first_of(moved))}.device"
    around = site.source.parents.get(call)
    if own is not None and isinstance(around, ast.IfExp):
        return  # it keeps the tensor on the host when the program asks for that
    choices.sort(key=lambda device: device != own)
    for device in choices:
        title = f"Put it on `{device}`"
        if given is not None:
            if ast.unparse(given) != device:
                yield from fix(title, [edits.replace(site.path, site.text, given, device)])
        elif method in ("cuda", "cpu") and isinstance(call.func, ast.Attribute) and not call.keywords:
            source = site.source.places
            start = source.end(call.func.value)
            if not edits.in_parentheses(source, call.func.value):
                title, new = ("Leave it where it is", "") if device == own else (title, to(device))
                yield from fix(title, [source.edit(site.path, start, source.end(call), new)])


def first_of(value: ast.expr) -> ast.expr:
    """What a chain of methods without a move in it begins with."""
    inner = value
    while isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
        if inner.func.attr in ("to", "cuda", "cpu") or inner.keywords:
            return value
        inner = inner.func.value
    return inner


def passed_on(site: Site | None, name: str | None, wanted: str | None) -> Iterator[Fix]:
    """The device handed on to a function that has a default for it."""
    call = None if site is None else call_in(site)
    if site is None or call is None or name is None:
        return
    for number, value in enumerate(call.args):
        # Meant for the parameter, it reached another one.
        if isinstance(value, ast.Name) and value.id == name and number == len(call.args) - 1:
            change = edits.replace(site.path, site.text, value, f"{name}={name}")
            yield from fix(f"Pass `{name}` by name", [change])
    yield from keyword(site, name, site.devices(wanted)[:MOST_DEVICES], f"Pass `{name}`")


def enclosing(site: Site) -> Function | None:
    """The function around a site."""
    scope = site.scope
    return scope if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)) else None


def replaced(site: Site | None, new: str | None, title: str) -> Iterator[Fix]:
    """Other text for the expression at a site."""
    if site is None or new is None or not isinstance(site.node, ast.expr):
        return
    yield from fix(title, [edits.replace(site.path, site.text, site.node, new)])


def without_pinning(scene: Scene, site: Site | None, sites: Sites) -> Iterator[Fix]:
    """`pin_memory=True` left out, or the call of `pin_memory`."""
    statement = None if site is None else site.statement
    if site is not None and statement is not None:
        header = statement.iter if isinstance(statement, (ast.For, ast.AsyncFor)) else statement
        for call in ast.walk(header):
            if isinstance(call, ast.Call) and any(k.arg == "pin_memory" for k in call.keywords):
                change = edits.without_keyword(site.path, site.text, call, "pin_memory")
                yield from fix("Do not pin", [change], safe=True)
    use = sites.at(scene.raised)
    receiver = None if use is None else receiver_of(use.node, "pin_memory")
    if use is not None and receiver is not None and not edits.in_parentheses(use.source.places, receiver):
        source = use.source.places
        change = source.edit(use.path, source.end(receiver), source.end(use.node), "")
        yield from fix("Do not pin", [change])


def nothing_returned(site: Site | None, title: str) -> Iterator[Fix]:
    """The function around a site without its last statement, which returns something."""
    function = None if site is None else enclosing(site)
    if site is None or function is None or len(function.body) < 2:
        return
    last = function.body[-1]
    returns = [n for n in own_nodes(function) if isinstance(n, ast.Return)]
    lines = edits.whole_lines(site.source.places, last)
    if isinstance(last, ast.Return) and last.value is not None and returns == [last] and lines is not None:
        source = site.source.places
        if "#" in source.text[source.start(last) : lines[1]]:
            change = edits.replace(site.path, site.text, last, "return")
        else:
            change = source.edit(site.path, *lines, "")
        yield from fix(title, [change])


def inside(site: Site | None, block: str, title: str) -> Iterator[Fix]:
    """The statement at a site as the only one of a block."""
    statement = None if site is None else site.statement
    if site is None or not isinstance(statement, (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign)):
        return
    source = site.source.places
    indent, lines = edits.indentation(source, statement), edits.whole_lines(source, statement)
    if indent is not None and lines is not None:
        deeper = indent + ("\t" if "\t" in indent else "    ")
        start = source.start(statement)
        yield from fix(title, [source.edit(site.path, start, start, f"{block}\n{deeper}")])


def torch_name(tree: ast.Module) -> str | None:
    """How a file calls `torch`, wherever it imports it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == "torch" or (alias.name.startswith("torch.") and alias.asname is None):
                    return alias.asname or "torch"
    return None


def gradient_on(site: Site | None, wanted: str | None) -> Iterator[Fix]:
    """The gradient that a `backward` or a hook makes, on the device of the one that comes in."""
    if site is None or not isinstance(site.node, ast.expr):
        return
    function = enclosing(site)
    if function is None:
        yield from on_device(site, wanted)
    names = [] if function is None else [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    lambdas = [n for n in site.source.around(site.node) if isinstance(n, ast.Lambda)]
    if lambdas:
        names = [a.arg for a in lambdas[0].args.args]
    grads = [n for n in names if "grad" in n] or names[-1:]
    # Hooks of nodes and modules get tuples of gradients.
    tuples = _elements_of(lambdas[0] if lambdas else function, names)
    grads = list(tuples.values()) or grads
    for device in dict.fromkeys([*[f"{n}.device" for n in grads], *site.devices(wanted, follow=True)]):
        yield from on_call(site, site.node, device)


def _elements_of(function: ast.AST | None, names: list[str]) -> dict[str, str]:
    """The parameters that are subscripted in a function's body, each with the first element that is taken of it."""
    found: dict[str, str] = {}
    for node in ast.walk(function) if function is not None else ():
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Name)
            and node.value.id in names
            and isinstance(node.slice, ast.Constant)
            and isinstance(node.slice.value, int)
        ):
            found.setdefault(node.value.id, ast.unparse(node))
    return found


def on_call(site: Site, node: ast.expr, device: str) -> Iterator[Fix]:
    """A move of an expression; a move that is there already goes there instead."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "cpu":
        source = site.source.places
        start = source.end(node.func.value)
        if not edits.in_parentheses(source, node.func.value):
            yield from fix(
                f"Return it on `{device}`", [source.edit(site.path, start, source.end(node), to(device))]
            )
        return
    yield from add_move(site, node, device, f"Return it on `{device}`")


def partner_to_stray(scene: Scene, sites: Sites) -> Iterator[Fix]:
    """The other operand of the failing call comes to the stray."""
    site, stray = sites.at(scene.raised), scene.stray_operand
    if site is None or stray is None or not stray.expression or not is_path(stray.expression):
        return
    changes: list[Edit] = []
    seen: set[str] = set()
    for other in scene.operands:
        if other.device == scene.wanted and other.expression and other.expression not in seen:
            seen.add(other.expression)
            for node in same_expressions(site, other.expression)[:1]:
                changes += moving(site, node, f"{stray.expression}.device")
    yield from fix(f"Bring the other side to `{stray.expression}`", changes)


def moved_first(site: Site | None, text: str) -> Iterator[Fix]:
    """`table[i].to(d)` with the move in front of the indexing."""
    node = None if site is None else site.node
    if site is None or node is None:
        return
    statement = site.statement
    moves = [*site.source.around(node), *([] if statement is None else ast.walk(statement))]
    for move in (node, *moves):
        if isinstance(receiver_of(move, "to"), ast.Subscript):
            yield from replaced(site.at(move), text, "Move the table first, then index it")
            return


def named_in(site: Site | None) -> list[str]:
    """The device that a move at this place names."""
    call = None if site is None else site.node
    text = device_argument(call) if isinstance(call, ast.Call) else None
    return [] if text is None else [text]


def loader_call(site: Site | None) -> Site | None:
    """The call that makes a DataLoader, within the statement that keeps it or goes over it."""
    statement = None if site is None else site.statement
    if site is None or statement is None:
        return None
    header = statement.iter if isinstance(statement, (ast.For, ast.AsyncFor)) else statement
    for node in ast.walk(header):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "DataLoader":
            return site.at(node)
    return site


def generator_call(site: Site | None) -> Site | None:
    """The call that makes a generator, within the statement that keeps it."""
    statement = None if site is None else site.statement
    if site is None or statement is None:
        return None
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "Generator":
            return site.at(node)
    return site
