"""What iterating over a value gives: the items known by position, then what any further one may be."""

import ast

from samedevice.lint.run import Frame, Run
from samedevice.lint.state import element, join
from samedevice.lint.values import (
    ARRAY,
    NUM,
    REST,
    UNKNOWN,
    Alts,
    Array,
    Const,
    Dict,
    Instance,
    Num,
    Param,
    Seq,
    Tensor,
    Unknown,
    Value,
)

Items = tuple[tuple[Value, ...], Value | None]


def items_of(run: Run, value: Value, node: ast.AST, frame: Frame) -> Items:
    """The known items, and what any further item may be (None: there is none)."""
    if isinstance(value, Seq):
        return value.items, value.rest
    if isinstance(value, Dict):
        keys = tuple(
            Const(k) if isinstance(k, str | int | bool | float) else k for k in value.cells if k is not REST
        )
        return keys, (NUM if REST in value.cells or not keys else None)
    if isinstance(value, Tensor | Param):
        from samedevice.lint.tensors import lower_rank, tensor_of

        tensor = tensor_of(value)
        assert tensor is not None
        return (), tensor.derive(lower_rank(tensor.rank))
    if isinstance(value, Array):
        return (), ARRAY
    if isinstance(value, Const | Num):
        return (), NUM
    if isinstance(value, Instance):
        from samedevice.lint import loaders

        return loaders.iterate(run, value, node, frame)
    if isinstance(value, Alts):
        rest: Value | None = None
        for option in value.options:
            if isinstance(option, Const):
                continue
            known, more = items_of(run, option, node, frame)
            for item in (*known, *([more] if more is not None else [])):
                rest = item if rest is None else join(rest, item, True)
        return (), rest if rest is not None else Unknown()
    if isinstance(value, Unknown) and value is not UNKNOWN:
        return (), Unknown(f"{value.name}[…]" if value.name else "")
    return (), Unknown()


def any_item(run: Run, value: Value, node: ast.AST, frame: Frame) -> Value:
    """Any item of an iterable."""
    if isinstance(value, Seq | Dict) and not isinstance(value, Dict):
        return element(value)
    known, rest = items_of(run, value, node, frame)
    found = rest
    for item in known:
        found = item if found is None else join(found, item, True)
    return found if found is not None else UNKNOWN
