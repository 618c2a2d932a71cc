"""Edits for what comes in parts (a batch, a record): the move that one part has, for the part that lacks it."""

import ast
from collections.abc import Iterator

from samedevice.model.fix import Fix
from samedevice.rules.mending import add_move, fix, receiver_of
from samedevice.rules.sites import Site
from samedevice.source import edits


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
