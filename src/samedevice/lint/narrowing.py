"""What a condition says about names, and alternatives that it rules out."""

from __future__ import annotations

import ast
from typing import Any

from samedevice.lint.conditions import truth
from samedevice.lint.run import Frame, Run
from samedevice.lint.state import assemble, tagged
from samedevice.lint.values import (
    NONE,
    Alts,
    Const,
    Unknown,
)

Narrowing = list[tuple[str, str, Any]]


def narrow(run: Run, test: ast.expr, frame: Frame) -> Narrowing:
    """What a condition says about plain names: (name, what, detail)."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.left, ast.Name):
        right = test.comparators[0]
        if isinstance(right, ast.Constant) and right.value is None:
            if isinstance(test.ops[0], ast.Is):
                return [(test.left.id, "none", True)]
            if isinstance(test.ops[0], ast.IsNot):
                return [(test.left.id, "none", False)]
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return [
            (name, what, not detail)
            for name, what, detail in narrow(run, test.operand, frame)
            if what == "none"
        ]
    if isinstance(test, ast.Name):
        return [(test.id, "true", True)]
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return [
            (n, w, d)
            for part in test.values
            for n, w, d in narrow(run, part, frame)
            if (w, d) != ("none", True)
        ]
    return []


def apply_narrowing(run: Run, narrowed: Narrowing, positive: bool, frame: Frame) -> None:
    """Restrict alternatives of local names to those that the branch allows."""
    if len(narrowed) > 1 and not positive:
        return
    for name, what, detail in narrowed:
        value = frame.locals.get(name)
        if what == "none":
            is_none = detail is positive
            if isinstance(value, Alts):
                kept = [
                    (o, t) for o, t in tagged(value) if (isinstance(o, Const) and o.value is None) is is_none
                ]
                if kept:
                    run.trail.write(frame.locals, name, assemble(kept))
            elif isinstance(value, Unknown) and is_none:
                run.trail.write(frame.locals, name, NONE)
        elif what == "true" and positive and isinstance(value, Alts):
            kept = [(o, t) for o, t in tagged(value) if truth(o) is not False]
            if kept:
                run.trail.write(frame.locals, name, assemble(kept))
