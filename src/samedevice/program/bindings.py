"""Where a name or an attribute gets its value: static look-ups in the program's own sources."""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from samedevice.program.files import USER, kind_of
from samedevice.program.frames import (
    FUNCTIONS,
    Scope,
    ancestors,
    class_of,
    in_loop,
    parent_of,
    scope_of,
    statement_of,
    tree_of,
)


@dataclass(frozen=True, slots=True)
class Binding:
    """One statement that gives a name, attribute or container item its value.

    Attributes:
        node: the statement (or comprehension) that binds.
        value: the expression it is bound to; for a loop the iterable, None if there is none.
        how: "assign", "for", "with", "parameter", "import", "augmented", "append", "item".
        whole: the value is bound as it is, not unpacked into several names.
    """

    filename: str
    node: ast.AST
    value: ast.expr | None
    how: str
    whole: bool = True

    @property
    def line(self) -> int:
        return int(getattr(self.node, "lineno", 1))


def _targets(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[ast.expr, ast.expr | None, bool]]:
    """The single targets of an assignment with their values, tuples matched item by item."""
    if isinstance(target, (ast.Tuple, ast.List)):
        items: list[ast.expr | None] = [value] * len(target.elts)
        exact = isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts)
        if exact:
            assert isinstance(value, (ast.Tuple, ast.List))
            items = list(value.elts)
        for element, single in zip(target.elts, items, strict=True):
            for leaf, its, whole in _targets(element, single):
                yield leaf, its, whole and exact
    elif isinstance(target, ast.Starred):
        yield target.value, value, False
    else:
        yield target, value, True


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """Nodes that are evaluated in the scope itself, not in functions or classes inside it."""
    stack: list[ast.AST] = [scope]
    while stack:
        for child in ast.iter_child_nodes(stack.pop()):
            yield child
            if not isinstance(child, (*FUNCTIONS, ast.ClassDef)):
                stack.append(child)


def bindings_in(scope: Scope, name: str, filename: str) -> list[Binding]:
    """Everything in `scope` that binds `name`, in the order of the text."""
    found: list[Binding] = []

    def take(target: ast.expr, value: ast.expr | None, node: ast.AST, how: str) -> None:
        for leaf, its, whole in _targets(target, value):
            if isinstance(leaf, ast.Name) and leaf.id == name:
                found.append(Binding(filename, node, its, how, whole))

    for node in _own_nodes(scope):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                take(target, node.value, node, "assign")
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            take(node.target, node.value, node, "assign")
        elif isinstance(node, ast.AugAssign):
            take(node.target, node.value, node, "augmented")
        elif isinstance(node, ast.NamedExpr):
            take(node.target, node.value, node, "assign")
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            take(node.target, node.iter, node, "for")
        elif isinstance(node, ast.comprehension):
            take(node.target, node.iter, parent_of(node) or node, "for")
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            take(node.optional_vars, node.context_expr, node.context_expr, "with")
        elif isinstance(node, (ast.Import, ast.ImportFrom)) and any(
            (alias.asname or alias.name) == name for alias in node.names
        ):
            found.append(Binding(filename, node, None, "import"))
    found.sort(key=lambda b: b.line)
    if isinstance(scope, FUNCTIONS):
        for argument in parameters(scope):
            if argument.arg == name:
                found.insert(0, Binding(filename, argument, None, "parameter"))
    return found


def reaching(scope: Scope, name: str, line: int, filename: str) -> list[Binding]:
    """The bindings of `name` that the use on `line` may see, the likeliest first.

    That is the last one above the use; in a loop, one below it may come round again.
    """
    every = bindings_in(scope, name, filename)
    above = [b for b in every if b.line < line or (b.line == line and b.how in ("for", "parameter", "with"))]
    below = [b for b in every if b.line >= line and in_loop(b.node)]
    return above[::-1] + below[::-1]


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[ast.arg]:
    """All parameters that have a name of their own."""
    a = function.args
    return [
        *a.posonlyargs,
        *a.args,
        *a.kwonlyargs,
        *([a.vararg] if a.vararg else []),
        *([a.kwarg] if a.kwarg else []),
    ]


def default_of(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, name: str) -> ast.expr | None:
    """The default of a parameter."""
    a = function.args
    positional = [*a.posonlyargs, *a.args]
    for argument, default in zip(positional[len(positional) - len(a.defaults) :], a.defaults, strict=True):
        if argument.arg == name:
            return default
    for argument, maybe in zip(a.kwonlyargs, a.kw_defaults, strict=True):
        if argument.arg == name:
            return maybe
    return None


def argument_of(
    call: ast.Call, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str, bound: bool
) -> tuple[ast.expr | None, bool]:
    """(the argument that the call gives to parameter `name`, whether that is known).

    `bound`: the first parameter (`self`) is not among the call's arguments.
    """
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value, True
    positional = [*function.args.posonlyargs, *function.args.args][1 if bound else 0 :]
    names = [a.arg for a in positional]
    if name in names:
        place = names.index(name)
        if any(isinstance(a, ast.Starred) for a in call.args[: place + 1]):
            return None, False
        if place < len(call.args):
            return call.args[place], True
    if any(k.arg is None for k in call.keywords):
        return None, False
    return None, True


def forwarding(call: ast.Call, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The function around a call that hands on, untouched, all the keywords that it was given itself."""
    stars = [k.value for k in call.keywords if k.arg is None]
    around = scope_of(call)
    if len(stars) != 1 or not isinstance(around, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return None
    star, kwarg = stars[0], around.args.kwarg
    if kwarg is None or not isinstance(star, ast.Name) or star.id != kwarg.arg:
        return None
    if any(p.arg == name for p in parameters(around)):
        return None  # it keeps this one for itself
    for node in ast.walk(around):
        if isinstance(node, ast.Name) and node.id == kwarg.arg:
            above = parent_of(node)
            if not (isinstance(above, ast.keyword) and above.arg is None):
                return None  # it looks into them, and may change them
    return around


def is_method(function: ast.AST) -> bool:
    """Whether the function is called with `self` (or `cls`) before the written arguments."""
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in function.decorator_list)
    return isinstance(parent_of(function), ast.ClassDef) and not static


def class_definitions(kind: type) -> Iterator[tuple[str, ast.ClassDef]]:
    """The source of a class and its bases, as far as it is user code: (file name, definition)."""
    for base in kind.__mro__:
        module = sys.modules.get(base.__module__)
        filename = getattr(module, "__file__", None)
        if not isinstance(filename, str) or kind_of(filename) != USER:
            continue
        tree = tree_of(filename)
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.ClassDef) and node.name == base.__name__:
                yield filename, node
                break


def attribute_bindings(kind: type, name: str) -> list[Binding]:
    """Where methods of the class (or its bases) store `self.name`: assignments, appends, items, `setattr`."""
    found: list[Binding] = []
    for filename, definition in class_definitions(kind):
        for node in ast.walk(definition):
            found += _stores(node, name, filename, owner="self")
    return found


def foreign_bindings(filenames: list[str], name: str) -> list[Binding]:
    """Where the files store attribute `name` of any object."""
    found: list[Binding] = []
    for filename in filenames:
        tree = tree_of(filename)
        for node in ast.walk(tree) if tree is not None else ():
            found += _stores(node, name, filename, owner=None)
    return found


def _stores(node: ast.AST, name: str, filename: str, owner: str | None) -> Iterator[Binding]:
    def is_it(target: ast.AST) -> bool:
        return (
            isinstance(target, ast.Attribute)
            and target.attr == name
            and (
                owner is None or (isinstance(target.value, ast.Name) and target.value.id == _self_name(node))
            )
        )

    if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        how = "augmented" if isinstance(node, ast.AugAssign) else "assign"
        for target in targets:
            for leaf, value, whole in _targets(target, node.value):
                if is_it(leaf):
                    yield Binding(filename, node, value, how, whole)
                elif isinstance(leaf, ast.Subscript) and is_it(_base(leaf)):
                    yield Binding(filename, node, value, "item", whole)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        adds = node.func.attr in ("append", "extend", "insert", "add", "update", "setdefault", "appendleft")
        if adds and is_it(node.func.value) and node.args:
            yield Binding(filename, statement_of(node) or node, node.args[-1], "append")
        elif node.func.attr == "register_buffer" and len(node.args) >= 2 and _is_string(node.args[0], name):
            yield Binding(filename, statement_of(node) or node, node.args[1], "register")
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "setattr"
        and len(node.args) == 3
        and _is_string(node.args[1], name)
    ):
        yield Binding(filename, statement_of(node) or node, node.args[2], "assign")


def _base(node: ast.AST) -> ast.AST:
    while isinstance(node, ast.Subscript):
        node = node.value
    return node


def _is_string(node: ast.AST, text: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == text


def _self_name(node: ast.AST) -> str | None:
    """The first parameter of the method around `node`."""
    for above in ancestors(node):
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)) and isinstance(
            parent_of(above), ast.ClassDef
        ):
            every = [*above.args.posonlyargs, *above.args.args]
            return every[0].arg if every else None
    return None


def is_empty(value: ast.expr | None) -> bool:
    """`None`, `[]`, `{}`, `list()` …: a value that holds nothing yet."""
    if value is None or (isinstance(value, ast.Constant) and value.value is None):
        return True
    if isinstance(value, (ast.List, ast.Tuple, ast.Set)):
        return not value.elts
    if isinstance(value, ast.Dict):
        return not value.keys
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        return value.func.id in ("list", "dict", "set", "tuple") and not value.args and not value.keywords
    return False


def state_bindings(filenames: list[str], key: str) -> list[Binding]:
    """Where the files write an optimizer's state by hand: an assignment into `….state[…]` that may set `key`."""
    named: list[Binding] = []
    others: list[Binding] = []
    for filename in filenames:
        tree = tree_of(filename)
        for node in ast.walk(tree) if tree is not None else ():
            if not isinstance(node, ast.Assign):
                continue
            for target in node.targets:
                if not isinstance(target, ast.Subscript):
                    continue
                keys = [n for n in ast.walk(target) if _is_string(n, key)]
                on_state = any(isinstance(n, ast.Attribute) and n.attr == "state" for n in ast.walk(target))
                sets_key = any(_is_string(n, key) for n in ast.walk(node.value))
                if keys:
                    named.append(Binding(filename, node, node.value, "item"))
                elif on_state:
                    (named if sets_key else others).append(Binding(filename, node, node.value, "item"))
    return named or others


def user_files() -> list[str]:
    """The files of user code that are loaded."""
    found: dict[str, None] = {}
    for module in list(sys.modules.values()):
        filename = getattr(module, "__file__", None)
        if isinstance(filename, str) and filename.endswith(".py") and kind_of(filename) == USER:
            found[filename] = None
    return list(found)


def calls_of(names: set[str], filenames: list[str]) -> list[tuple[str, ast.Call]]:
    """Calls `name(…)` or `….name(…)` in the files."""
    found: list[tuple[str, ast.Call]] = []
    for filename in filenames:
        tree = tree_of(filename)
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.Call):
                called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", None)
                if called in names:
                    found.append((filename, node))
    return found


def method_of(node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The method or function around `node`."""
    return next((a for a in ancestors(node) if isinstance(a, (ast.FunctionDef, ast.AsyncFunctionDef))), None)


def super_init_calls(kind: type, defining: ast.ClassDef) -> list[tuple[str, ast.Call]]:
    """`super().__init__(…)` calls in subclasses, between `kind` and the class that `defining` is."""
    found: list[tuple[str, ast.Call]] = []
    for filename, definition in class_definitions(kind):
        if definition is defining:
            return found
        for node in ast.walk(definition):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "__init__"
                and class_of(node) is definition
                and _names_base(node.func.value, defining.name)
            ):
                found.append((filename, node))
    return []


def _names_base(node: ast.AST, base: str) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id == "super"
    return isinstance(node, ast.Name) and node.id == base


def function_named(filename: str, code_name: str, first_line: int) -> Any:
    """The definition of a function by its name and first line."""
    tree = tree_of(filename)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == code_name:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first == first_line or node.lineno == first_line:
                return node
    return None


__all__ = [
    "Binding",
    "argument_of",
    "attribute_bindings",
    "bindings_in",
    "calls_of",
    "class_definitions",
    "default_of",
    "foreign_bindings",
    "forwarding",
    "function_named",
    "is_empty",
    "is_method",
    "method_of",
    "parameters",
    "reaching",
    "scope_of",
    "state_bindings",
    "super_init_calls",
    "user_files",
]
