"""Moves whose result nobody takes: `x.to(device)` as a statement, or into a name never read again."""

import ast
from collections.abc import Iterator

from samedevice.program.frames import FUNCTIONS, Scope, ancestors, parent_of, scope_of, statement_of

MOVES = ("to", "cuda", "cpu", "type_as")


def is_thrown_away(call: ast.AST) -> bool:
    """Whether the value of the call is lost at the end of its statement."""
    node: ast.AST = call
    while True:
        above = parent_of(node)
        if isinstance(above, ast.Attribute) or (isinstance(above, ast.Call) and above.func is node):
            node = above  # `x.to(d).float()`: the whole chain decides
        elif isinstance(above, (ast.ListComp, ast.GeneratorExp, ast.SetComp)) and above.elt is node:
            node = above
        elif isinstance(above, (ast.Tuple, ast.List)) and isinstance(
            parent_of(above), (ast.Expr, ast.Assign)
        ):
            if isinstance(parent_of(above), ast.Assign):
                return _tuple_store_is_dead(node, above)
            node = above
        else:
            break
    if isinstance(above, ast.Expr):
        return True
    if isinstance(above, ast.Assign) and len(above.targets) == 1 and isinstance(above.targets[0], ast.Name):
        return _is_dead(above.targets[0].id, above)
    return False


def _tuple_store_is_dead(element: ast.AST, values: ast.Tuple | ast.List) -> bool:
    """`x, y = x.to(d), y.to(d)` at the end of a function that returns neither."""
    assign = parent_of(values)
    if not isinstance(assign, ast.Assign) or len(assign.targets) != 1:
        return False
    target = assign.targets[0]
    if not isinstance(target, (ast.Tuple, ast.List)) or len(target.elts) != len(values.elts):
        return False
    place = next((i for i, value in enumerate(values.elts) if value is element), None)
    name = None if place is None else target.elts[place]
    return isinstance(name, ast.Name) and _is_dead(name.id, assign)


def _is_dead(name: str, statement: ast.stmt) -> bool:
    """Whether the name is never read after the statement (and not seen from outside the function)."""
    scope = scope_of(statement)
    if not isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        rebound = _rebound_by_loop(name, statement)
        return rebound is not None and not any(_reads(rebound, name, statement))
    for node in ast.walk(scope):
        if isinstance(node, (ast.Global, ast.Nonlocal)) and name in node.names:
            return False
    loop = _rebound_by_loop(name, statement)
    return not any(_reads(loop if loop is not None else _loop_or_scope(statement, scope), name, statement))


def _rebound_by_loop(name: str, statement: ast.stmt) -> ast.For | ast.AsyncFor | None:
    """The loop around the statement that gives the name a new value in each round."""
    for above in ancestors(statement):
        if isinstance(above, (ast.For, ast.AsyncFor)):
            if any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(above.target)):
                return above
        elif isinstance(above, (*FUNCTIONS, ast.ClassDef)):
            return None
    return None


def _loop_or_scope(statement: ast.stmt, scope: Scope) -> ast.AST:
    return scope


def _reads(within: ast.AST, name: str, statement: ast.stmt) -> Iterator[bool]:
    """Reads of the name after the statement, or anywhere in a loop that comes back to it."""
    own = set(map(id, ast.walk(statement)))
    comes_back = [a for a in ancestors(statement) if isinstance(a, (ast.For, ast.AsyncFor, ast.While))]
    rebinding = _rebound_by_loop(name, statement)
    again: set[int] = set()
    for loop in comes_back:
        if loop is rebinding:
            break
        again.update(map(id, ast.walk(loop)))
    for node in ast.walk(within):
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            if id(node) in own:
                continue
            if node.lineno > (statement.end_lineno or statement.lineno) or id(node) in again:
                yield True


def unused_moves_of(scope: Scope, name: str, before: int) -> list[ast.Call]:
    """Statements `name.to(…)` in the scope, on or above line `before`, whose result nobody takes."""
    found = []
    for node in ast.walk(scope):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in MOVES
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == name
            and isinstance(statement_of(node), ast.Expr)
            and parent_of(node) is statement_of(node)
            and node.lineno <= before
        ):
            found.append(node)
    return found
