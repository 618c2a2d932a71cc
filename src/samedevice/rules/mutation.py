"""What a statement writes to: a move there would take what is written to a copy, and nobody would see it."""

import ast
from collections.abc import Iterator
from typing import Final

#: methods whose result is what they are called on, or shares its memory
SAME_MEMORY: Final = frozenset(
    "data detach diagonal expand flatten mT narrow permute ravel real reshape select squeeze swapaxes T t "
    "transpose unflatten unsqueeze view view_as".split()
)

#: `nn.init.normal_(x)` changes its argument, `x.normal_()` what it is called on
LIBRARY: Final = frozenset("F clip_grad functional init nn th torch utils".split())


def written_to(root: ast.AST) -> set[ast.expr]:
    """The expressions below `root` that an operation changes: `x` in `x.add_(y)`, `x[i] = y`, `out=x`."""
    return {part for node in ast.walk(root) for target in _targets(node) for part in _holders(target)}


def _targets(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, (ast.Subscript, ast.Attribute)) and not isinstance(node.ctx, ast.Load):
        yield node.value
    elif isinstance(node, ast.AugAssign):
        yield node.target
    elif isinstance(node, ast.Call):
        owner, _, name = ast.unparse(node.func).rpartition(".")
        if (
            in_place(name)
            and isinstance(node.func, ast.Attribute)
            and owner.rpartition(".")[2] not in LIBRARY
        ):
            yield node.func.value
        elif in_place(name):
            yield from node.args[:1]
        yield from (k.value for k in node.keywords if k.arg == "out")


def in_place(name: str) -> bool:
    """Whether a function changes its first argument, as PyTorch names those that do."""
    return name.endswith("_") and not name.endswith("__") and name != "_"


def _holders(node: ast.expr) -> Iterator[ast.expr]:
    """An expression and what shares its memory: `a`, `a.data` and `a.data[0]` for `a.data[0]`."""
    while True:
        yield node
        if isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Attribute):
                return
            if node.func.attr not in SAME_MEMORY and not in_place(node.func.attr):
                return
            node = node.func.value
        elif isinstance(node, (ast.Subscript, ast.Starred)):
            node = node.value
        elif isinstance(node, (ast.Tuple, ast.List)):
            for part in node.elts:
                yield from _holders(part)
            return
        elif isinstance(node, ast.Attribute) and node.attr in SAME_MEMORY:
            node = node.value
        else:
            return
