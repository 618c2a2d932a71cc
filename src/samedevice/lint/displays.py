"""Lists, dictionaries and comprehensions."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from samedevice.lint import calls, exprs, iteration, narrowing
from samedevice.lint.conditions import truth
from samedevice.lint.run import Frame, Run
from samedevice.lint.state import join
from samedevice.lint.values import (
    REST,
    UNKNOWN,
    Const,
    Dict,
    Seq,
    Value,
)


def eval_sequence(kind: str) -> Callable[[Run, Any, Frame], Value]:
    def build(run: Run, node: Any, frame: Frame) -> Value:
        items: list[Value] = []
        rest: Value | None = None
        for part in node.elts:
            if isinstance(part, ast.Starred):
                value = exprs.evaluate(run, part.value, frame)
                if isinstance(value, Seq) and value.rest is None:
                    items.extend(value.items)
                else:
                    known, more = iteration.items_of(run, value, part, frame)
                    items.extend(known)
                    rest = more if rest is None else rest
            elif len(items) < exprs.LONG:
                items.append(exprs.evaluate(run, part, frame))
        result = Seq(kind, tuple(items), rest)
        result.birth = run.event("container", node, frame)
        return result

    return build


def eval_dict(run: Run, node: ast.Dict, frame: Frame) -> Value:
    result = Dict()
    result.birth = run.event("container", node, frame)
    for key_node, value_node in zip(node.keys[: exprs.LONG], node.values[: exprs.LONG], strict=True):
        value = exprs.evaluate(run, value_node, frame)
        if key_node is None:
            if isinstance(value, Dict):
                result.cells.update(value.cells)
            else:
                result.cells[REST] = UNKNOWN
            continue
        key = exprs.evaluate(run, key_node, frame)
        if isinstance(key, Const) and isinstance(key.value, str | int | bool | float):
            result.cells[key.value] = value
        else:
            old = result.cells.get(REST)
            result.cells[REST] = value if old is None else join(old, value, True)
    if len(node.keys) > exprs.LONG:
        result.cells[REST] = UNKNOWN
    return result


def comprehension(run: Run, node: Any, frame: Frame, emit: Callable[[Frame], None]) -> bool:
    """Run `emit` for each round; False when the number of rounds is unknown."""
    inner = Frame(frame.module, frame.func, frame.stack, frame, frame.depth)
    inner.file, inner.name = frame.file, frame.name
    inner.self_value, inner.cls = frame.self_value, frame.cls
    inner.func = frame.func
    exact = True

    def level(number: int) -> None:
        nonlocal exact
        if number == len(node.generators):
            emit(inner)
            return
        generator = node.generators[number]
        iterable = exprs.evaluate(run, generator.iter, inner)
        known, rest = iteration.items_of(run, iterable, node, inner)
        rounds = list(known[:8])
        if rest is not None or len(known) > 8:
            exact = False
            rounds.append(rest if rest is not None else known[8])
        from samedevice.lint.flow import assign

        for item in rounds:
            assign(run, generator.target, item, inner, generator.target)
            verdicts = []
            for condition in generator.ifs:
                verdicts.append(truth(exprs.evaluate(run, condition, inner)))
                narrowing.apply_narrowing(run, narrowing.narrow(run, condition, inner), True, inner)
            if False in verdicts:
                continue
            if None in verdicts:
                exact = False
            level(number + 1)

    level(0)
    return exact


def eval_listcomp(kind: str) -> Callable[[Run, Any, Frame], Value]:
    def build(run: Run, node: Any, frame: Frame) -> Value:
        found: list[Value] = []
        exact = comprehension(
            run, node, frame, lambda inner: found.append(exprs.evaluate(run, node.elt, inner))
        )
        result: Seq
        if exact:
            result = Seq(kind, tuple(found))
        else:
            rest: Value | None = None
            for value in found:
                rest = value if rest is None else join(rest, value, True)
            result = Seq(kind, (), rest if rest is not None else UNKNOWN)
        result.birth = run.event("container", node, frame)
        return result

    return build


def eval_dictcomp(run: Run, node: ast.DictComp, frame: Frame) -> Value:
    result = Dict()
    result.birth = run.event("container", node, frame)

    def emit(inner: Frame) -> None:
        key = exprs.evaluate(run, node.key, inner)
        value = exprs.evaluate(run, node.value, inner)
        if isinstance(key, Const) and isinstance(key.value, str | int | bool | float):
            result.cells[key.value] = value
        else:
            old = result.cells.get(REST)
            result.cells[REST] = value if old is None else join(old, value, True)

    comprehension(run, node, frame, emit)
    if isinstance(node.value, ast.Call | ast.IfExp):
        calls.note_missed_here(run, node, result, frame)
    return result
