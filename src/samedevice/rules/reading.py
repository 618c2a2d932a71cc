"""Sentences and edits that several rules share when the code was read, not run."""

import ast

from samedevice.model.diagnostic import Evidence
from samedevice.model.fix import Applicability, Edit, Fix
from samedevice.model.meeting import Happening, Meeting, Place
from samedevice.rules.rule import Recognition
from samedevice.source import edits


def told(
    meeting: Meeting,
    message: str,
    help: str | None = None,
    fix: Fix | None = None,
    suggestion: str | None = None,
) -> Recognition:
    """The recognition of a meeting: the story is the same for all rules, the message is not."""
    return Recognition(
        message=message,
        location=meeting.culprit.location,
        confidence=meeting.confidence,
        evidence=evidence(meeting),
        help=help,
        suggestion=suggestion,
        fix=fix,
    )


def evidence(meeting: Meeting) -> tuple[Evidence, ...]:
    """The steps of the story in the order of the program's time."""
    steps: list[Evidence] = []

    def add(happening: Happening | None, text: str) -> None:
        if happening is not None and all(e.location != happening.place.location for e in steps):
            steps.append(Evidence(happening.place.location, text))

    born = meeting.born
    if born is not None and meeting.cause not in ("discarded-move",):
        kind, _, function = born.what.partition(":")
        if kind == "numpy":
            add(born, f"`{function}` takes its data from numpy, so it is on cpu")
        elif kind == "loaded":
            add(born, "loaded here, to where it was saved")
        elif kind == "collated":
            add(born, "the loader puts its batches together on cpu")
        elif meeting.chosen is not None:
            add(born, f"`{born.place.source}` is made on {meeting.chosen.device} here")
        else:
            add(born, f"`{born.place.source}` names no device, so it is on cpu")
    add(meeting.chosen, f"{meeting.chosen.device if meeting.chosen else ''} is chosen here")
    if meeting.defaulted is not None:
        add(meeting.defaulted, f"`{meeting.name}` is left out here, so that its default decides")
    add(meeting.created, f"`{meeting.created.place.source if meeting.created else ''}` is made here")
    add(meeting.copied, "copied here")
    add(meeting.held, f"kept in `{meeting.name}` here, where it is not registered")
    add(meeting.batch, "the loader hands out its batches on cpu")
    add(meeting.bound, "named here, still on cpu")
    add(
        meeting.module_moved,
        f"the module moves to {meeting.module_moved.device if meeting.module_moved else ''} here",
    )
    add(meeting.lost, "a moved copy is made here and thrown away")
    if meeting.moved is not None and meeting.module_moved is None:
        add(meeting.moved, f"moved to {meeting.device} here")
    if meeting.wanted is not None and meeting.other is not None:
        met = f"`{meeting.stray}` on {meeting.device} meets `{meeting.other}` on {meeting.wanted} here"
    elif meeting.wanted is not None:
        met = f"{meeting.wanted} is needed here"
    else:
        met = f"`{meeting.stray}` is on {meeting.device} here"
    if (meeting.cause != "discarded-move" and meeting.stray != "the tensor") or meeting.wanted is not None:
        steps.append(Evidence(meeting.met.location, met))
    return tuple(steps)


def handed(meeting: Meeting) -> str:
    """What the batch is called where it is handed on."""
    node = meeting.culprit.node
    if isinstance(node, ast.Assign):
        return ast.unparse(node.targets[0])
    name = argument(meeting)
    return ast.unparse(name) if name is not None else meeting.stray


def argument(meeting: Meeting) -> ast.expr | None:
    """The one plain argument of the culprit's call that is the stray; None when it is not plain which."""
    node = meeting.culprit.node
    if not isinstance(node, ast.Call):
        return None
    if meeting.culprit.location == meeting.met.location:
        for value in [*node.args, *[k.value for k in node.keywords]]:
            if ast.unparse(value) == meeting.stray:
                return value
        return None
    plain = [v for v in node.args if isinstance(v, ast.Name | ast.Subscript | ast.Attribute)]
    if len(node.args) == 1 and len(plain) == 1 and not node.keywords:
        return plain[0]
    return None


def other_name(meeting: Meeting) -> str:
    """A short name for what the stray meets."""
    return meeting.other if meeting.other and meeting.other.isidentifier() else "other"


def name_of(meeting: Meeting) -> str:
    """The method whose result is thrown away."""
    return meeting.operator


def to_wanted(meeting: Meeting) -> str:
    """Where a module moves, when that has a name."""
    return "" if meeting.shallow or meeting.wanted is None else f" to {meeting.wanted}"


def unsafe(title: str, *changes: Edit | None) -> Fix | None:
    """A fix of edits that must all exist."""
    made = [c for c in changes if c is not None]
    if not made or len(made) != len(changes):
        return None
    return Fix(title, Applicability.UNSAFE, tuple(made))


def path(place: Place) -> str:
    return place.location.path


def device_fix(meeting: Meeting) -> Fix | None:
    """`device=…` on the factory call, following something that is already right."""
    node, place = meeting.culprit.node, meeting.culprit
    if meeting.anchor is None or not isinstance(node, ast.Call):
        return None
    title = (
        f"Create it on the device of `{meeting.anchor.removesuffix('.device')}`"
        if meeting.anchor.endswith(".device")
        else f"Create it on `{meeting.anchor}`"
    )
    function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if function in ("from_numpy", "frombuffer") or function.endswith("Tensor"):
        return unsafe(title, *edits.method_call(path(place), place.text, node, f".to({meeting.anchor})"))
    return unsafe(title, edits.add_keyword(path(place), place.text, node, f"device={meeting.anchor}"))


def keyword_fix(meeting: Meeting, keyword: str, title: str) -> Fix | None:
    """A keyword on the culprit's call."""
    node, place = meeting.culprit.node, meeting.culprit
    if not isinstance(node, ast.Call):
        return None
    return unsafe(title, edits.add_keyword(path(place), place.text, node, keyword))


def argument_fix(meeting: Meeting) -> Fix | None:
    """The argument that was left out, when the caller has a variable of that name."""
    node, place = meeting.culprit.node, meeting.culprit
    name = meeting.name
    if not isinstance(node, ast.Call) or name is None:
        return None
    scope = scope_of(place)
    if isinstance(scope, ast.FunctionDef) and name in [
        a.arg for a in (*scope.args.args, *scope.args.kwonlyargs)
    ]:
        for number, value in enumerate(node.args):
            if isinstance(value, ast.Name) and value.id == name:
                if number != len(node.args) - 1:
                    return None
                return unsafe(
                    f"Pass `{name}` by name", edits.replace(path(place), place.text, value, f"{name}={name}")
                )
        return unsafe(f"Pass `{name}`", edits.add_keyword(path(place), place.text, node, f"{name}={name}"))
    return None


def scope_of(place: Place) -> ast.AST:
    """The innermost function around a place, or the module."""
    best: ast.AST = place.tree
    line = getattr(place.node, "lineno", 0)
    functions = [n for n in ast.walk(place.tree) if isinstance(n, ast.FunctionDef)]
    for node in sorted(functions, key=lambda n: n.lineno):
        if node.lineno <= line <= (node.end_lineno or 0):
            best = node
    return best


def assign_fix(meeting: Meeting) -> Fix | None:
    """`x = x.to(device)`."""
    node, place = meeting.culprit.node, meeting.culprit
    if not isinstance(node, ast.Expr):
        return None
    return unsafe("Assign the moved copy", edits.assign_result(path(place), place.text, node))


def batch_fix(meeting: Meeting) -> Fix | None:
    """`x = x.to(device)` at the head of the loop that hands `x` out; else the move where it is handed on."""
    place, anchor = meeting.culprit, device_name(meeting)
    if anchor is None:
        return None
    if isinstance(place.node, ast.Assign):
        value = place.node.value
        if not isinstance(place.node.targets[0], ast.Name):
            return None
        return unsafe(
            f"Move it to `{anchor}`", *edits.method_call(path(place), place.text, value, f".to({anchor})")
        )
    name = argument(meeting)
    if name is None:
        return None
    if (
        isinstance(name, ast.Name)
        and meeting.batch is not None
        and isinstance(meeting.batch.place.node, ast.For)
    ):
        loop = meeting.batch.place.node
        targets = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
        if name.id in targets and path(meeting.batch.place) == path(place):
            edit = edits.insert_first(path(place), place.text, loop, f"{name.id} = {name.id}.to({anchor})")
            if edit is not None:
                return unsafe(f"Move it to `{anchor}` at the head of the loop", edit)
    return unsafe(
        f"Move it to `{anchor}`", *edits.method_call(path(place), place.text, name, f".to({anchor})")
    )


def device_name(meeting: Meeting) -> str | None:
    """How the culprit's function names the wanted device."""
    if meeting.facts.get("device"):
        return str(meeting.facts["device"])
    return None


def move_created(meeting: Meeting) -> Fix | None:
    """`.to(device)` behind the call that makes a module."""
    node, place, anchor = meeting.culprit.node, meeting.culprit, device_name(meeting)
    if anchor is None or not isinstance(node, ast.Call):
        return None
    made = meeting.created.place.node if meeting.created is not None else None
    if meeting.cause == "module-added-after-move" and made is not node:
        return None
    return unsafe(
        f"Move it to `{anchor}`", *edits.method_call(path(place), place.text, node, f".to({anchor})")
    )


def move_argument(meeting: Meeting, anchor: str | None) -> Fix | None:
    """`.to(anchor)` behind the stray where it meets the other operand."""
    node, place = meeting.met.node, meeting.met
    if anchor is None or not isinstance(node, ast.Call):
        return None
    for value in [*node.args, *[k.value for k in node.keywords]]:
        if ast.unparse(value) == meeting.stray:
            return unsafe(
                f"Move it to `{anchor}`", *edits.method_call(path(place), place.text, value, f".to({anchor})")
            )
    return None


def follow_other(meeting: Meeting) -> Fix | None:
    """The stray moved to the other operand's device where they meet."""
    if meeting.other is None or not meeting.other.replace(".", "").replace("_", "").isalnum():
        return None
    return move_argument(meeting, f"{meeting.other}.device")


def gradient_fix(meeting: Meeting) -> Fix | None:
    """The gradient that `backward` returns, moved to where the incoming one is."""
    place = meeting.culprit
    scope = scope_of(place)
    if (
        not isinstance(place.node, ast.Return)
        or not isinstance(place.node.value, ast.expr)
        or not isinstance(scope, ast.FunctionDef)
    ):
        return None
    if len(scope.args.args) < 2 or isinstance(place.node.value, ast.Tuple):
        return None
    anchor = f"{scope.args.args[1].arg}.device"
    return unsafe(
        f"Return it on `{anchor}`",
        *edits.method_call(path(place), place.text, place.node.value, f".to({anchor})"),
    )


def call_fix(meeting: Meeting, expression: str, call: str, title: str) -> Fix | None:
    """`.call` behind an operand of the culprit."""
    place = meeting.culprit
    for node in ast.walk(place.node):
        if isinstance(node, ast.expr) and node is not place.node and ast.unparse(node) == expression:
            return unsafe(title, *edits.method_call(path(place), place.text, node, call))
    return None


def table_fix(meeting: Meeting) -> Fix | None:
    """The move of `table[index].to(…)` before the indexing."""
    place = meeting.culprit
    node = place.node
    if not isinstance(node, ast.Subscript) or meeting.other is None:
        return None
    if not meeting.other.replace("_", "").replace(".", "").isalnum():
        return None
    return unsafe(
        f"Move it to the device of `{meeting.other}` before it is indexed",
        *edits.method_call(path(place), place.text, node.value, f".to({meeting.other}.device)"),
    )


def container_fix(meeting: Meeting) -> Fix | None:
    """`nn.ModuleList([...])` round a list, when torch.nn has a name in the file."""
    place = meeting.culprit
    prefix = nn_name(place.tree)
    statement = edits.statement_of(place.tree, place.node)
    if prefix is None or statement is None:
        return None
    if isinstance(statement, ast.Expr):
        statement = empty_list(place.tree, statement)
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
        return None
    value = statement.value
    if isinstance(value, ast.List) and not value.elts:
        return unsafe(
            "Make it an `nn.ModuleList`",
            edits.replace(path(place), place.text, value, f"{prefix}.ModuleList()"),
        )
    if isinstance(value, ast.List | ast.ListComp):
        return unsafe(
            "Make it an `nn.ModuleList`",
            *edits.wrap(path(place), place.text, value, f"{prefix}.ModuleList(", ")"),
        )
    if isinstance(value, ast.Dict | ast.DictComp):
        return unsafe(
            "Make it an `nn.ModuleDict`",
            *edits.wrap(path(place), place.text, value, f"{prefix}.ModuleDict(", ")"),
        )
    return None


def empty_list(tree: ast.Module, statement: ast.Expr) -> ast.stmt | None:
    """`self.x = []` for `self.x.append(...)`, in the same function."""
    call = statement.value
    if not (
        isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "append"
    ):
        return None
    target = ast.unparse(call.func.value)
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and function.lineno <= statement.lineno <= (
            function.end_lineno or 0
        ):
            for node in ast.walk(function):
                if (
                    isinstance(node, ast.Assign)
                    and len(node.targets) == 1
                    and ast.unparse(node.targets[0]) == target
                ):
                    return node
    return None


def nn_name(tree: ast.Module, *, deep: bool = False) -> str | None:
    """How a file calls `torch.nn`; `deep` looks for imports in functions and branches as well."""
    statements = list(ast.walk(tree)) if deep else tree.body
    for node in statements:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == "torch.nn" and alias.asname:
                    return alias.asname
        if isinstance(node, ast.ImportFrom) and node.module == "torch" and not node.level:
            for alias in node.names:
                if alias.name == "nn":
                    return alias.asname or "nn"
    for node in statements:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in ("torch", "torch.nn") and (alias.asname is None or alias.name == "torch"):
                    return f"{alias.asname or 'torch'}.nn"
    return None


def buffer_fix(meeting: Meeting) -> Fix | None:
    """`self.x = value` as `self.register_buffer("x", value, persistent=False)`."""
    place = meeting.culprit
    statement = edits.statement_of(place.tree, place.node)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or meeting.name is None:
        return None
    target = statement.targets[0]
    if not (
        isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
    ):
        return None
    source = edits.Text.of(place.text)
    start, end = source.start(statement.value), source.end(statement.value)
    around = edits.parentheses_round(source, source.end(target), start, end)
    if around is None:
        return None
    start, end = around
    head = Edit(
        path(place),
        source.point(source.start(statement)),
        source.point(start),
        f'self.register_buffer("{meeting.name}", ',
    )
    tail = source.edit(path(place), end, end, ", persistent=False)")
    return unsafe("Register it as a buffer", head, tail)


def drop_pinning(meeting: Meeting) -> Fix | None:
    """`pin_memory=False`."""
    node, place = meeting.culprit.node, meeting.culprit
    if isinstance(node, ast.Call):
        for keyword in node.keywords:
            if keyword.arg == "pin_memory" and isinstance(keyword.value, ast.Constant):
                return unsafe("Do not pin", edits.replace(path(place), place.text, keyword.value, "False"))
    return None
