"""Where a device expression was decided: the end of the way back through names, arguments and defaults."""

import ast
from dataclasses import replace

from samedevice.live.origins import Tracer, Where
from samedevice.model.scene import Action, Decision, Step
from samedevice.program import bindings as b
from samedevice.program.frames import (
    class_of,
    location_of,
    parent_of,
    scope_of,
    statement_of,
    text_of,
    tree_of,
)


def decide(node: ast.expr, where: Where, tracer: Tracer, depth: int = 10) -> Decision | None:
    """What decided the device that `node` stands for; None when that cannot be read."""
    if depth == 0:
        return None
    if isinstance(node, ast.Constant):
        holder = statement_of(node)
        shown = holder if holder is not None and not hasattr(holder, "body") else node
        top = (
            holder is not None
            and isinstance(parent_of(holder), ast.Module)
            and isinstance(holder, ast.Assign)
        )
        return Decision(
            "global" if top else "literal", location_of(shown, where.file), text_of(node, where.file)
        )
    if isinstance(node, (ast.IfExp, ast.BoolOp)):
        return Decision(
            "choice", location_of(statement_of(node) or node, where.file), text_of(node, where.file)
        )
    if isinstance(node, (ast.Dict, ast.List, ast.Tuple, ast.Subscript)):
        return Decision(
            "table", location_of(statement_of(node) or node, where.file), text_of(node, where.file)
        )
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in ("device", "str") and node.args:
            return decide(node.args[0], where, tracer, depth - 1)
        if called in ("cuda", "cpu"):
            return Decision("literal", location_of(node, where.file), text_of(node, where.file))
        return None
    if isinstance(node, ast.Attribute):
        if node.attr == "device" and tracer.owner_of(node.value, where) is None:
            return Decision("follows", location_of(node, where.file), text_of(node, where.file), "device")
        for store, inner in tracer.attribute_stores(node, where):
            if store.value is not None:
                return _passed(
                    decide(store.value, inner, tracer, depth - 1),
                    store.node,
                    store.filename,
                    "attribute",
                    node.attr,
                )
        return None
    if isinstance(node, ast.Name):
        return _name(node, where, tracer, depth)
    return None


def _passed(found: Decision | None, node: ast.AST, file: str, how: str, name: str) -> Decision | None:
    if found is None:
        return None
    step = Step(Action.ASSIGNED, how, location_of(statement_of(node) or node, file), expression=name)
    return replace(found, steps=(step, *found.steps), name=found.name or name)


def _name(node: ast.Name, where: Where, tracer: Tracer, depth: int) -> Decision | None:
    scope = scope_of(node)
    line = max(where.line, node.lineno)
    while scope is not None:
        if isinstance(scope, ast.Lambda):
            scope = scope_of(scope)
            continue
        found = b.reaching(scope, node.id, line, where.file)
        if not found and isinstance(scope, ast.Module):
            found = b.bindings_in(scope, node.id, where.file)[::-1]
        if found:
            first = found[0]
            if first.how == "parameter" and isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return _parameter(scope, node.id, where, tracer, depth)
            if first.how == "import":
                known = tracer.sources.imports(where.file).get(node.id)
                tree = tree_of(known[0]) if known is not None and known[0] else None
                if tree is None or known is None or known[1] is None:
                    return None
                outer = [x for x in b.bindings_in(tree, known[1], known[0]) if x.value is not None]
                return _several(outer, Where(known[0], 1 << 30), tracer, node.id, depth)
            return _several([x for x in found if x.value is not None], where, tracer, node.id, depth)
        if isinstance(scope, ast.Module):
            return None
        scope, line = scope_of(scope), 1 << 30
    return None


def _several(found: list[b.Binding], where: Where, tracer: Tracer, name: str, depth: int) -> Decision | None:
    """Of several bindings (the branches of an `if`) the one that names the stray's device."""
    kind = tracer.stray.partition(":")[0]
    decisions = []
    for binding in found[:4]:
        assert binding.value is not None
        inner = replace(where, line=binding.line)
        one = _passed(
            decide(binding.value, inner, tracer, depth - 1), binding.node, binding.filename, "assigned", name
        )
        if one is not None:
            decisions.append((binding, one))
    for binding, one in decisions:
        if kind in one.expression:
            chosen = isinstance(parent_of(binding.node), ast.If)
            return replace(one, how="choice") if chosen else one
    return decisions[0][1] if decisions else None


def _parameter(
    scope: ast.FunctionDef | ast.AsyncFunctionDef, name: str, where: Where, tracer: Tracer, depth: int
) -> Decision | None:
    for call, outer in tracer.callers(scope, where):
        argument, known = b.argument_of(call, scope, name, b.is_method(scope))
        if argument is not None:
            found = _passed(decide(argument, outer, tracer, depth - 1), call, outer.file, "argument", name)
            if found is not None:
                return found
        elif known and (default := b.default_of(scope, name)) is not None:
            return Decision(
                "omitted",
                location_of(call, outer.file),
                text_of(call, outer.file),
                name,
                _title(scope),
                text_of(default, where.file),
            )
    return None


def _title(scope: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    definition = class_of(scope) if isinstance(parent_of(scope), ast.ClassDef) else None
    if definition is None:
        return scope.name
    return definition.name if scope.name == "__init__" else f"{definition.name}.{scope.name}"
