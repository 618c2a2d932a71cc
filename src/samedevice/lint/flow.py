"""Statements: assignments, branches, loops, and what joins after them."""

import ast
from collections.abc import Callable
from functools import partial
from typing import Any

from samedevice.lint import classes, contexts, exprs, iteration, loading, narrowing, operators, tensors
from samedevice.lint.conditions import data_decides, truth
from samedevice.lint.run import Exhausted, Frame, Run
from samedevice.lint.state import Changes, assemble, join, options
from samedevice.lint.values import (
    NONE,
    NUM,
    REST,
    UNKNOWN,
    Alts,
    Const,
    Dict,
    Func,
    Instance,
    Param,
    Seq,
    Tensor,
    Unknown,
    Value,
)

FALL, RETURN, BREAK, CONTINUE, RAISE = range(5)
UNROLL = 6


def exec_block(run: Run, body: list[ast.stmt], frame: Frame) -> int:
    """Run statements; what ended them."""
    for statement in body:
        run.tick()
        handler = STATEMENTS.get(type(statement))
        if handler is not None:
            signal = handler(run, statement, frame)
            if signal:
                return int(signal)
    return FALL


def exec_expr(run: Run, node: ast.Expr, frame: Frame) -> int:
    if isinstance(node.value, ast.Constant):
        return FALL
    if isinstance(node.value, ast.Yield | ast.YieldFrom | ast.Await):
        exprs.evaluate(run, node.value, frame)
        return FALL
    value = exprs.evaluate(run, node.value, frame)
    tensors.discarded(run, node, value, frame)
    call = node.value
    if (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in ("exit", "_exit")
    ):
        return RAISE
    return FALL


def exec_assign(run: Run, node: ast.Assign, frame: Frame) -> int:
    value = exprs.evaluate(run, node.value, frame)
    for target in node.targets:
        assign(run, target, value, frame, node)
    return FALL


def exec_annassign(run: Run, node: ast.AnnAssign, frame: Frame) -> int:
    if node.value is not None:
        assign(run, node.target, exprs.evaluate(run, node.value, frame), frame, node)
    return FALL


def exec_augassign(run: Run, node: ast.AugAssign, frame: Frame) -> int:
    load = node.target
    left = exprs.evaluate(run, load, frame)
    right = exprs.evaluate(run, node.value, frame)
    value = operators.binary(run, node, left, right, load, node.value, frame, in_place=True)
    if isinstance(left, Param):
        return FALL
    assign(run, node.target, value, frame, node)
    return FALL


def assign(run: Run, target: ast.AST, value: Value, frame: Frame, statement: ast.AST) -> None:
    """Bind `target` to `value`."""
    if isinstance(target, ast.Name):
        if isinstance(value, Tensor) and value.batch is not None and value.leaf and value.bound is None:
            source = getattr(statement, "value", None)
            if isinstance(source, ast.Subscript | ast.Attribute | ast.Name | ast.Tuple):
                value.bound = run.event("bound", statement, frame)
        bind(run, frame, target.id, value)
    elif isinstance(target, ast.Tuple | ast.List):
        unpack(run, target.elts, value, frame, statement)
    elif isinstance(target, ast.Attribute):
        owner = exprs.evaluate(run, target.value, frame)
        for option in options(owner):
            classes.set_attribute(run, option, target.attr, value, target, frame)
    elif isinstance(target, ast.Subscript):
        set_item(run, target, value, frame, statement)
    elif isinstance(target, ast.Starred):
        assign(run, target.value, Seq("list", (), UNKNOWN), frame, statement)


def bind(run: Run, frame: Frame, name: str, value: Value) -> None:
    """Give a name its value in the scope it belongs to."""
    if name in frame.globals_:
        run.trail.write(frame.module.env, name, value)
        return
    cells = frame.locals
    scope: Frame | None = frame
    while scope is not None and scope.func is not None and f"nonlocal {name}" in scope.locals:
        scope = scope.parent
        if scope is not None:
            cells = scope.locals
    run.trail.write(cells, name, value)


def unpack(run: Run, targets: list[ast.expr], value: Value, frame: Frame, statement: ast.AST) -> None:
    """Bind a tuple of targets."""
    starred = next((i for i, t in enumerate(targets) if isinstance(t, ast.Starred)), None)
    if isinstance(value, Seq) and value.rest is None and starred is None and len(value.items) == len(targets):
        for target, item in zip(targets, value.items, strict=True):
            assign(run, target, item, frame, statement)
        return
    if (
        isinstance(value, Seq)
        and value.rest is None
        and starred is not None
        and len(value.items) >= len(targets) - 1
    ):
        tail = len(targets) - starred - 1
        middle = value.items[starred : len(value.items) - tail]
        for target, item in zip(targets[:starred], value.items, strict=False):
            assign(run, target, item, frame, statement)
        star = targets[starred]
        assert isinstance(star, ast.Starred)
        assign(run, star.value, Seq("list", middle), frame, statement)
        for target, item in zip(targets[starred + 1 :], value.items[len(value.items) - tail :], strict=False):
            assign(run, target, item, frame, statement)
        return
    if isinstance(value, Alts) and starred is None:
        fitting = [
            o for o in value.options if isinstance(o, Seq) and o.rest is None and len(o.items) == len(targets)
        ]
        if len(fitting) == len(value.options):
            for index, target in enumerate(targets):
                found = [(o.items[index], t) for o, t in zip(fitting, value.tags, strict=True)]
                assign(run, target, assemble(found), frame, statement)
            return
    known, rest = iteration.items_of(run, value, statement, frame)
    for index, target in enumerate(targets):
        if rest is None and known and starred is None and index < len(known):
            assign(run, target, known[index], frame, statement)
        else:
            assign(run, target, rest if rest is not None else Unknown(), frame, statement)


def set_item(run: Run, target: ast.Subscript, value: Value, frame: Frame, statement: ast.AST) -> None:
    """`container[key] = value`."""
    owner = exprs.evaluate(run, target.value, frame)
    key = exprs.evaluate(run, target.slice, frame)
    for option in options(owner):
        if isinstance(option, Dict):
            name: Any = (
                key.value if isinstance(key, Const) and isinstance(key.value, str | int | bool) else None
            )
            if isinstance(key, Param):
                name = key
            tensors.note_stored(run, value, option, target, frame)
            if name is not None:
                run.trail.write(option.cells, name, value)
            else:
                old = option.cells.get(REST)
                run.trail.write(option.cells, REST, value if old is None else join(old, value, True))
        elif isinstance(option, Seq):
            items = option.items
            if (
                isinstance(key, Const)
                and isinstance(key.value, int)
                and -len(items) <= key.value < len(items)
            ):
                new = list(items)
                new[key.value] = value
                run.trail.write(option.cells, "items", tuple(new))
            else:
                rest = option.rest
                run.trail.write(option.cells, "rest", value if rest is None else join(rest, value, True))
        elif isinstance(option, Tensor | Param):
            tensors.store_index(run, option, key, value, target, frame)
        elif isinstance(option, Instance):
            classes.set_instance_item(run, option, key, value, target, frame)


def exec_if(run: Run, node: ast.If, frame: Frame) -> int:
    test = exprs.evaluate(run, node.test, frame)
    known = truth(test)
    if known is True:
        return exec_block(run, node.body, frame)
    if known is False:
        return exec_block(run, node.orelse, frame)
    exact = data_decides(node.test)
    narrowed = narrowing.narrow(run, node.test, frame)

    def side(body: list[ast.stmt], positive: bool) -> int:
        narrowing.apply_narrowing(run, narrowed, positive, frame)
        return exec_block(run, body, frame)

    return branch(run, frame, lambda: side(node.body, True), lambda: side(node.orelse, False), exact)


def branch(run: Run, frame: Frame, one: Callable[[], int], other: Callable[[], int], exact: bool) -> int:
    """Run both sides from the same state and join what they leave."""
    trail = run.trail
    if exact:
        frame.data += 1
    else:
        frame.config += 1
    mark = trail.mark()
    try:
        first = one()
        first_changes = trail.changes(mark)
        trail.rewind(mark)
        second = other()
    finally:
        if exact:
            frame.data -= 1
        else:
            frame.config -= 1
    if first != FALL and second == FALL:
        settle(frame, first, first_changes)
        return FALL
    second_changes = trail.changes(mark)
    trail.rewind(mark)
    if first == FALL and second != FALL:
        settle(frame, second, second_changes)
        redo(run, first_changes)
        return FALL
    if first == RAISE and second != FALL:
        redo(run, second_changes)
        return second
    if second == RAISE and first != FALL:
        redo(run, first_changes)
        return int(first)
    trail.merge(first_changes, second_changes, exact)
    if first == second:
        return int(first)
    return RETURN if RETURN in (first, second) and BREAK not in (first, second) else max(first, second)


def redo(run: Run, changes: Changes) -> None:
    """Write changes again that were rewound."""
    from samedevice.lint.state import MISSING

    for (_, key), (cells, value, _) in changes.items():
        if value is MISSING:
            run.trail.erase(cells, key)
        else:
            run.trail.write(cells, key, value)


def settle(frame: Frame, signal: int, changes: Changes) -> None:
    """Keep what a side did that left early, for the place where it comes back."""
    if signal == RETURN:
        frame.ended.append({k: v for k, v in changes.items() if v[0] is not frame.locals})
    elif signal in (BREAK, CONTINUE) and frame.breaks:
        frame.breaks[-1].append(changes)


def absorb(run: Run, ended: list[Any]) -> None:
    """Join the worlds of early leavers into the present one."""
    from samedevice.lint.state import MISSING

    for changes in ended:
        for (_, key), (cells, value, _) in changes.items():
            now = cells.get(key, MISSING)
            if value is MISSING or now is value:
                continue
            if now is MISSING:
                run.trail.write(cells, key, value)
            else:
                from samedevice.lint.state import join_cells

                run.trail.write(cells, key, join_cells(key, now, value, False))


def exec_for(run: Run, node: ast.For | ast.AsyncFor, frame: Frame) -> int:
    iterable = exprs.evaluate(run, node.iter, frame)
    known, rest = iteration.items_of(run, iterable, node, frame)
    frame.breaks.append([])
    signal = FALL
    run.repeats += 1
    try:
        if rest is None and len(known) <= UNROLL:
            for item in known:
                signal = one_round(run, node, item, frame)
                if signal in (BREAK, RETURN, RAISE):
                    break
        else:
            for round_ in range(2):
                item = known[round_] if round_ < len(known) else (rest if rest is not None else known[-1])
                signal = one_round(run, node, item, frame)
                if signal in (BREAK, RETURN, RAISE):
                    break
    finally:
        run.repeats -= 1
        ended = frame.breaks.pop()
    absorb(run, ended)
    if signal == RETURN:
        return RETURN
    if signal != BREAK:
        return exec_block(run, node.orelse, frame)
    return FALL


def one_round(run: Run, node: ast.For | ast.AsyncFor, item: Value, frame: Frame) -> int:
    assign(run, node.target, item, frame, node)
    return exec_block(run, node.body, frame)


def exec_while(run: Run, node: ast.While, frame: Frame) -> int:
    frame.breaks.append([])
    signal = FALL
    try:
        for _ in range(2):
            test = truth(exprs.evaluate(run, node.test, frame))
            if test is False:
                break
            signal = exec_block(run, node.body, frame)
            if signal in (BREAK, RETURN, RAISE):
                break
    finally:
        ended = frame.breaks.pop()
    absorb(run, ended)
    return RETURN if signal == RETURN else FALL


def exec_return(run: Run, node: ast.Return, frame: Frame) -> int:
    value = NONE if node.value is None else exprs.evaluate(run, node.value, frame)
    frame.returns.append((value, frame.config == 0))
    return RETURN


def exec_try(run: Run, node: ast.Try, frame: Frame) -> int:
    signal = exec_block(run, node.body, frame)
    if signal == FALL:
        signal = exec_block(run, node.orelse, frame)
    for handler in node.handlers:
        quiet(run, frame, handler.body, handler.name)
    if signal == RAISE:
        signal = FALL
    final = exec_block(run, node.finalbody, frame)
    return final or signal


def quiet(run: Run, frame: Frame, body: list[ast.stmt], name: str | None) -> None:
    """An exception handler: it may have run, so that what it changes is only possible."""

    def handle() -> int:
        if name:
            run.trail.write(frame.locals, name, Unknown())
        return exec_block(run, body, frame)

    branch(run, frame, handle, lambda: FALL, False)


def exec_match(run: Run, node: ast.Match, frame: Frame) -> int:
    exprs.evaluate(run, node.subject, frame)
    for case in node.cases:
        for part in ast.walk(case.pattern):
            name = getattr(part, "name", None)
            if isinstance(name, str) and isinstance(part, ast.MatchAs | ast.MatchStar):
                bind(run, frame, name, Unknown())
        branch(run, frame, partial(exec_block, run, case.body, frame), lambda: FALL, False)
    return FALL


def exec_def(run: Run, node: ast.FunctionDef | ast.AsyncFunctionDef, frame: Frame) -> int:
    value = classes.make_function(run, node, frame)
    if isinstance(value, Func) and value.kind in ("setter", "deleter", "getter"):
        frame.locals[f"{value.kind} {node.name}"] = value
        return FALL
    bind(run, frame, node.name, value)
    return FALL


def exec_class(run: Run, node: ast.ClassDef, frame: Frame) -> int:
    bind(run, frame, node.name, classes.make_class(run, node, frame))
    return FALL


def exec_import(run: Run, node: ast.Import, frame: Frame) -> int:
    for alias in node.names:
        if alias.asname:
            bind(run, frame, alias.asname, loading.import_name(run, frame, alias.name))
        else:
            first = alias.name.partition(".")[0]
            bind(run, frame, first, loading.import_name(run, frame, first, alias.name))
    return FALL


def exec_import_from(run: Run, node: ast.ImportFrom, frame: Frame) -> int:
    module = loading.absolute(frame.file, node.module or "", node.level)
    for alias in node.names:
        if alias.name == "*":
            loading.import_star(run, frame, module)
        else:
            bind(run, frame, alias.asname or alias.name, loading.import_from(run, module, alias.name))
    return FALL


def exec_global(run: Run, node: ast.Global, frame: Frame) -> int:
    frame.globals_ = frame.globals_ | frozenset(node.names)
    return FALL


def exec_nonlocal(run: Run, node: ast.Nonlocal, frame: Frame) -> int:
    for name in node.names:
        frame.locals[f"nonlocal {name}"] = True
    return FALL


def exec_delete(run: Run, node: ast.Delete, frame: Frame) -> int:
    for target in node.targets:
        if isinstance(target, ast.Name):
            run.trail.erase(frame.locals, target.id)
    return FALL


def exec_raise(run: Run, node: ast.Raise, frame: Frame) -> int:
    return RAISE


def exec_assert(run: Run, node: ast.Assert, frame: Frame) -> int:
    test = exprs.evaluate(run, node.test, frame)
    narrowing.apply_narrowing(run, narrowing.narrow(run, node.test, frame), True, frame)
    return RAISE if truth(test) is False and isinstance(node.test, ast.Constant) else FALL


STATEMENTS: dict[type[ast.stmt], Any] = {
    ast.Expr: exec_expr,
    ast.Assign: exec_assign,
    ast.AnnAssign: exec_annassign,
    ast.AugAssign: exec_augassign,
    ast.If: exec_if,
    ast.For: exec_for,
    ast.AsyncFor: exec_for,
    ast.While: exec_while,
    ast.Return: exec_return,
    ast.With: contexts.exec_with,
    ast.AsyncWith: contexts.exec_with,
    ast.Try: exec_try,
    ast.TryStar: exec_try,
    ast.Match: exec_match,
    ast.FunctionDef: exec_def,
    ast.AsyncFunctionDef: exec_def,
    ast.ClassDef: exec_class,
    ast.Import: exec_import,
    ast.ImportFrom: exec_import_from,
    ast.Global: exec_global,
    ast.Nonlocal: exec_nonlocal,
    ast.Delete: exec_delete,
    ast.Raise: exec_raise,
    ast.Assert: exec_assert,
    ast.Pass: lambda run, node, frame: FALL,
    ast.Break: lambda run, node, frame: BREAK,
    ast.Continue: lambda run, node, frame: CONTINUE,
}

__all__ = ["BREAK", "CONTINUE", "FALL", "NUM", "RAISE", "RETURN", "Exhausted", "exec_block"]
