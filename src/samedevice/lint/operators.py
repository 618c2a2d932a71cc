"""Operators: arithmetic, comparisons and boolean expressions of any values."""

from __future__ import annotations

import ast
from typing import Any

from samedevice.lint import exprs, tensors
from samedevice.lint.conditions import data_decides, truth
from samedevice.lint.devices import same
from samedevice.lint.run import Frame, Run
from samedevice.lint.state import assemble, conflict, element, join, options, tagged
from samedevice.lint.values import (
    ARRAY,
    NUM,
    REST,
    UNKNOWN,
    Alts,
    Array,
    Class,
    Const,
    Dict,
    Func,
    Instance,
    Num,
    Param,
    Seq,
    Tags,
    Tensor,
    Unknown,
    Value,
)


def eval_binop(run: Run, node: ast.BinOp, frame: Frame) -> Value:
    left = exprs.evaluate(run, node.left, frame)
    right = exprs.evaluate(run, node.right, frame)
    return binary(run, node, left, right, node.left, node.right, frame)


def binary(
    run: Run, node: ast.BinOp | ast.AugAssign, left: Value, right: Value, left_node: ast.expr, right_node: ast.expr,
    frame: Frame, in_place: bool = False,
) -> Value:  # fmt: skip
    """`left op right` for any values."""
    if isinstance(left, Alts) or isinstance(right, Alts):
        found: list[tuple[Value, Tags]] = []
        for a, one_tags in tagged(left):
            for b, two_tags in tagged(right):
                if not conflict(one_tags, two_tags):
                    value = binary(run, node, a, b, left_node, right_node, frame, in_place)
                    found.append((value, one_tags | two_tags))
        return assemble(found) if found else UNKNOWN
    if isinstance(left, Tensor | Param) or isinstance(right, Tensor | Param):
        return tensors.operator(run, node, left, right, left_node, right_node, frame, in_place)
    if isinstance(left, Const) and isinstance(right, Const):
        return fold(node.op, left, right)
    if isinstance(left, Seq) and isinstance(right, Seq) and isinstance(node.op, ast.Add):
        if left.rest is None and right.rest is None and len(left.items) + len(right.items) <= 12:
            return Seq(left.kind, (*left.items, *right.items))
        return Seq(left.kind, (), join(element(left), element(right), True))
    if isinstance(left, Seq) and isinstance(node.op, ast.Mult):
        return Seq(left.kind, (), element(left))
    if isinstance(left, Array) or isinstance(right, Array):
        return ARRAY
    if isinstance(left, Num | Const) and isinstance(right, Num | Const):
        return NUM
    if isinstance(left, Instance) and left.cls is not None:
        return Unknown()
    return Unknown()


def fold(op: ast.operator, left: Const, right: Const) -> Value:
    """Constant arithmetic on small values."""
    a, b = left.value, right.value
    try:
        if isinstance(op, ast.Add) and isinstance(a, str) and isinstance(b, str) and len(a) < 200:
            return Const(a + b, left.site)
        if isinstance(op, ast.Add) and isinstance(a, int | float) and isinstance(b, int | float):
            return Const(a + b, left.site)
        if isinstance(a, int) and isinstance(b, int):
            if isinstance(op, ast.Sub):
                return Const(a - b, left.site)
            if isinstance(op, ast.Mult) and abs(a) < 10**9 and abs(b) < 10**9:
                return Const(a * b, left.site)
            if isinstance(op, ast.FloorDiv) and b:
                return Const(a // b, left.site)
            if isinstance(op, ast.Mod) and b:
                return Const(a % b, left.site)
    except (TypeError, ValueError, OverflowError):
        return NUM
    return NUM


def eval_unary(run: Run, node: ast.UnaryOp, frame: Frame) -> Value:
    value = exprs.evaluate(run, node.operand, frame)
    if isinstance(node.op, ast.Not):
        known = truth(value)
        return NUM if known is None else Const(not known)
    if isinstance(value, Const) and isinstance(value.value, int | float) and isinstance(node.op, ast.USub):
        return Const(-value.value, value.site)
    return exprs.distribute(
        value,
        lambda v: (
            tensors.result_of(v, None)
            if isinstance(v, Tensor | Param)
            else (v if isinstance(v, Array) else Unknown() if isinstance(v, Unknown) else NUM)
        ),
    )


def eval_boolop(run: Run, node: ast.BoolOp, frame: Frame) -> Value:
    conjunction = isinstance(node.op, ast.And)
    result: Value | None = None
    for part in node.values:
        value = exprs.evaluate(run, part, frame)
        known = truth(value)
        if known is (not conjunction):
            return value if result is None else join(result, value, data_decides(node))
        if known is None or part is node.values[-1]:
            result = value if result is None else join(result, value, data_decides(node))
    return result if result is not None else UNKNOWN


def eval_compare(run: Run, node: ast.Compare, frame: Frame) -> Value:
    left = exprs.evaluate(run, node.left, frame)
    right = exprs.evaluate(run, node.comparators[0], frame)
    if len(node.ops) > 1:
        for other in node.comparators[1:]:
            exprs.evaluate(run, other, frame)
        return NUM
    op = node.ops[0]
    if isinstance(op, ast.Is | ast.IsNot):
        known = identity(left, right)
        return NUM if known is None else Const(known is isinstance(op, ast.Is))
    if isinstance(op, ast.In | ast.NotIn):
        return membership(left, right, isinstance(op, ast.In))
    if any(isinstance(v, Tensor | Param) for side in (left, right) for v in options(side)):
        found: list[tuple[Value, Tags]] = []
        for a, one_tags in tagged(left):
            for b, two_tags in tagged(right):
                if conflict(one_tags, two_tags):
                    continue
                if tensors.tensor_of(a) is None and tensors.tensor_of(b) is None:
                    found.append((NUM, one_tags | two_tags))
                else:
                    value = tensors.operator(run, node, a, b, node.left, node.comparators[0], frame, False)
                    found.append((value, one_tags | two_tags))
        return assemble(found) if found else NUM
    if isinstance(left, Const) and isinstance(right, Const):
        return compare_constants(op, left.value, right.value)
    one, two = tensors.device_value(left, frame, strict=True), tensors.device_value(right, frame, strict=True)
    if one is not None and two is not None and isinstance(op, ast.Eq | ast.NotEq):
        if same(one.dev, two.dev):
            return Const(isinstance(op, ast.Eq))
        if not one.dev.is_symbol and not two.dev.is_symbol:
            return Const(isinstance(op, ast.NotEq))
        if one.dev.is_cpu or two.dev.is_cpu:
            return Const(isinstance(op, ast.NotEq))
    if (
        isinstance(left, Num)
        and left.tag == "gpus"
        and isinstance(right, Const)
        and isinstance(right.value, int)
    ):
        if isinstance(op, ast.Gt | ast.NotEq) and right.value <= 0:
            return Const(True)
        if isinstance(op, ast.GtE) and right.value <= 1:
            return Const(True)
        if isinstance(op, ast.Eq | ast.Lt | ast.LtE) and right.value <= 0:
            return Const(False)
        return Num("gpus-compared")
    return NUM


def identity(left: Value, right: Value) -> bool | None:
    """`left is right`, None when unknown."""
    if isinstance(right, Const) and (right.value is None or isinstance(right.value, bool)):
        if isinstance(left, Const):
            return left.value is right.value
        if isinstance(left, Unknown | Num):
            return None
        if isinstance(left, Alts):
            found = {identity(option, right) for option in left.options}
            return found.pop() if len(found) == 1 else None
        if isinstance(left, Tensor) and left.maybe:
            return None if right.value is None and left.likely else False
        return False
    if isinstance(left, Instance | Class | Func) and isinstance(right, Instance | Class | Func):
        return left is right
    return None


def membership(left: Value, right: Value, positive: bool) -> Value:
    """`left in right` for constants."""
    if isinstance(left, Const) and isinstance(right, Seq) and right.rest is None:
        if all(isinstance(item, Const) for item in right.items):
            found = any(isinstance(item, Const) and item.value == left.value for item in right.items)
            return Const(found is positive)
        return NUM
    if isinstance(left, Const) and isinstance(right, Dict) and REST not in right.cells:
        return Const((left.value in right.cells) is positive)
    if (
        isinstance(left, Const)
        and isinstance(right, Const)
        and isinstance(left.value, str)
        and isinstance(right.value, str)
    ):
        return Const((left.value in right.value) is positive)
    return NUM


def compare_constants(op: ast.cmpop, a: Any, b: Any) -> Value:
    try:
        if isinstance(op, ast.Eq):
            return Const(a == b)
        if isinstance(op, ast.NotEq):
            return Const(a != b)
        if isinstance(op, ast.Lt):
            return Const(a < b)
        if isinstance(op, ast.LtE):
            return Const(a <= b)
        if isinstance(op, ast.Gt):
            return Const(a > b)
        return Const(a >= b)
    except TypeError:
        return NUM
