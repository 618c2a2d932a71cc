"""`with` statements: contexts that change where tensors are made."""

from __future__ import annotations

import ast

from samedevice.lint import classes, exprs, flow
from samedevice.lint.run import Frame, Run
from samedevice.lint.values import (
    Device,
    Instance,
    Unknown,
    Value,
)


def exec_with(run: Run, node: ast.With | ast.AsyncWith, frame: Frame) -> int:
    saved = run.default
    named = run.default_named
    try:
        for item in node.items:
            value = exprs.evaluate(run, item.context_expr, frame)
            entered = enter(run, value, item.context_expr, frame)
            if item.optional_vars is not None:
                flow.assign(run, item.optional_vars, entered, frame, node)
        return flow.exec_block(run, node.body, frame)
    finally:
        run.default = saved
        run.default_named = named


#: words in a context manager's source that may change where factories put their tensors
DEVICE_WORDS = ("device", "cuda", "gpu", "empty", "init", "meta", "skip", "context", "zero", "scope")


def enter(run: Run, value: Value, node: ast.expr, frame: Frame) -> Value:
    """What `with value as …` binds; sets the default device where the context does."""
    if isinstance(value, Device):
        run.default = value
        return value
    if isinstance(value, Instance) and value.cls is not None:
        found = value.cls.find("__enter__")
        if found is not None:
            return exprs.call(run, classes.bind(value, found[1]), [], {}, node, frame)
    if isinstance(value, Unknown) and not value.tags:
        text = ast.unparse(node).lower()
        if any(word in text for word in DEVICE_WORDS):
            run.default = None
    return value if not isinstance(value, Unknown) else Unknown()
