"""Conditions: which are known, and which of the unknown ones the data decides."""

import ast

from samedevice.lint.values import (
    Alts,
    Bound,
    Class,
    Const,
    Device,
    Dict,
    Ext,
    Func,
    Instance,
    Method,
    Module,
    Param,
    Partial,
    Seq,
    Value,
)

DATA_ATTRIBUTES = frozenset(
    "numel nelement shape size dim ndim any all training empty is_floating_point is_complex requires_grad "
    "is_sparse is_contiguous dtype".split()
)
DATA_CALLS = frozenset({"len", "isinstance", "hasattr", "any", "all"})
CONFIG_WORDS = (
    "cuda",
    "device",
    "gpu",
    "cpu",
    "mps",
    "args",
    "config",
    "cfg",
    "opt",
    "backend",
    "accelerator",
    "distributed",
)


def truth(value: Value) -> bool | None:
    """Whether a value is true, None when unknown."""
    if isinstance(value, Const):
        return bool(value.value)
    if isinstance(value, Func | Bound | Class | Module | Method | Partial | Ext | Device):
        return True
    if isinstance(value, Instance):
        cls = value.cls
        if cls is not None and (cls.find("__len__") is not None or cls.find("__bool__") is not None):
            return None
        return (
            True
            if value.builtin not in ("torch.nn.ModuleList", "torch.nn.Sequential", "torch.nn.ModuleDict")
            else None
        )
    if isinstance(value, Seq):
        return True if value.items else (None if value.rest is not None else False)
    if isinstance(value, Dict):
        return None if not value.cells else True
    if isinstance(value, Alts):
        found = {truth(option) for option in value.options}
        return found.pop() if len(found) == 1 else None
    if isinstance(value, Param):
        return None
    return None


def data_decides(test: ast.expr) -> bool:
    """Whether an unknown condition is about the data, so that both branches really occur.

    A condition about configuration often guards the move of one operand here and of the other
    elsewhere; the two must not be combined. The answer is kept on the node: a condition in a
    function is met once for each way to it.
    """
    known: bool | None = test.__dict__.get("about_data")
    if known is None:
        known = test.__dict__["about_data"] = find_data(test)
    return known


def find_data(test: ast.expr) -> bool:
    """The same, looked for."""
    about_data = False
    for node in ast.walk(test):
        if isinstance(node, ast.Attribute):
            name = node.attr
            if name in DATA_ATTRIBUTES:
                about_data = True
        elif isinstance(node, ast.Name):
            name = node.id
        elif (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in DATA_CALLS
        ) or (
            isinstance(node, ast.Compare)
            and isinstance(node.ops[0], ast.Is | ast.IsNot)
            and len(node.ops) == 1
        ):
            about_data = True
            continue
        else:
            continue
        lowered = name.lower()
        if any(word in lowered for word in CONFIG_WORDS):
            return False
    return about_data
