"""Where an edit of the program would go: the source at a place of a story, and what is named there.

A run tells where a mistake was made; the edit that takes it out needs the syntax around that place
and an expression that gives the wanted device *there*: a variable in scope, what its siblings are
moved to, a tensor that is already right.
"""

import ast
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from samedevice.model.diagnostic import Location
from samedevice.source.decoding import DecodingError, decode
from samedevice.source.edits import Text, block_of

Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)

#: what a running program knows by name in the function that begins at a line (with its decorators; 0 is the
#: module): (expression, "device" | "tensor" | "module")
Names = Callable[[str, int, str], list[tuple[str, str]]]


class Source:
    """A file of the program: its text, its tree, and what is around each node."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self.tree = ast.parse(text)
        self.places = Text.of(text)
        self.parents: dict[ast.AST, ast.AST] = {
            child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)
        }

    def node(self, location: Location) -> ast.AST | None:
        """The outermost expression or statement with exactly this span.

        A place without an end is that of a compound statement, or of a whole line.
        """
        start = (location.line, location.column)
        end = None if location.end_line is None else (location.end_line, location.end_column)
        for node in ast.walk(self.tree):
            if not isinstance(node, (ast.expr, ast.stmt)) or node.lineno != location.line:
                continue
            first, last = self.span(node)
            if end is None:
                if isinstance(node, ast.stmt) and (first == start or location.column == 1):
                    return node
            elif (first, last) == (start, end):
                # `x.to(d)` alone on its line is a statement and a call: the call is asked for.
                return node.value if isinstance(node, ast.Expr) else node
        return None

    def span(self, node: ast.expr | ast.stmt) -> tuple[tuple[int, int], tuple[int, int]]:
        """First and last place in characters, from 1."""
        first = self.places.point(self.places.start(node))
        last = self.places.point(self.places.end(node))
        return (first.line, first.column), (last.line, last.column)

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around a node, nearest first."""
        above = self.parents.get(node)
        while above is not None:
            yield above
            above = self.parents.get(above)

    def statement(self, node: ast.AST) -> ast.stmt | None:
        """The statement that a node belongs to."""
        if isinstance(node, ast.stmt):
            return node
        return next((n for n in self.around(node) if isinstance(n, ast.stmt)), None)

    def scope(self, node: ast.AST) -> ast.AST:
        """The function (not a lambda) around a node, or the module."""
        found = (n for n in self.around(node) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)))
        return next(found, self.tree)

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements among which a statement stands."""
        return block_of(statement, self.parents.get(statement))


@dataclass(slots=True)
class Site:
    """A node of the program's source at which an edit may be made."""

    source: Source
    node: ast.AST
    names: Names | None = None

    @property
    def path(self) -> str:
        return self.source.path

    @property
    def text(self) -> str:
        return self.source.text

    @property
    def statement(self) -> ast.stmt | None:
        return self.source.statement(self.node)

    @property
    def scope(self) -> ast.AST:
        return self.source.scope(self.node)

    def at(self, node: ast.AST) -> "Site":
        """Another node of the same file."""
        return Site(self.source, node, self.names)

    def written(self, node: ast.AST) -> str:
        """A node's source text."""
        return self.source.places.source(node)

    def loops(self) -> list[ast.AST]:
        """The loops of the same function around the node, nearest first."""
        found: list[ast.AST] = []
        for node in self.source.around(self.node):
            if isinstance(node, FUNCTIONS):
                break
            if isinstance(node, LOOPS):
                found.append(node)
        return found

    def devices(self, wanted: str | None, *, follow: bool = False) -> list[str]:
        """Expressions that give the wanted device here, the best first.

        Args:
            wanted: "cuda:0", or None when that is not known: then only names count.
            follow: prefer a tensor at hand (inside a computation) to what the program calls its device.
        """
        scope = self.scope
        line = getattr(self.node, "lineno", 0)
        mine = parameters(scope)
        siblings = [t for t in moves_in(scope, line) if means(t, wanted) and self.has(t)]
        known = self._known(wanted)
        devices = [t for t, kind in known if kind == "device" and self.has(t)]
        if "device" in mine and "device" not in devices:
            devices.insert(0, "device")
        tensors = [f"{t}.device" for t, kind in known if kind == "tensor" and self.has(t)]
        modules = [f"next({t}.parameters()).device" for t, kind in known if kind == "module" and self.has(t)]
        if not any(t.partition(".")[0] in mine for t in tensors):
            # The function does not run any more: what it treats as tensors.
            tensors += [f"{name}.device" for name in like_tensors(scope) if self.has(name)]
        own = [t for t in tensors if t.partition(".")[0] in mine and t.count(".") == 1]
        rest = [t for t in tensors if t not in own]
        # The program's own way to write it, elsewhere in the file.
        siblings += [
            t for t in moves_in(self.source.tree, line, deep=True) if t[0] in "'\"" and means(t, wanted)
        ]
        named = [t for t in siblings if not t.startswith(("'", '"'))]
        literal = [t for t in siblings if t not in named]
        named.sort(key=lambda t: t.endswith(".device") and t not in devices)
        if follow:
            ordered = [*own, *devices, *named, *rest, *modules, *literal]
        else:
            ordered = [*named, *devices, *own, *modules, *rest, *literal]
        return one_of_each(ordered)

    def _known(self, wanted: str | None) -> list[tuple[str, str]]:
        if self.names is None or wanted is None:
            return []
        scope = self.scope
        first = min(
            (d.lineno for d in getattr(scope, "decorator_list", ())), default=getattr(scope, "lineno", 0)
        )
        return self.names(self.path, first, wanted)

    def has(self, expression: str) -> bool:
        """Whether every name of an expression has its value at this place, as far as the source tells."""
        try:
            used = {n.id for n in ast.walk(ast.parse(expression, mode="eval")) if isinstance(n, ast.Name)}
        except SyntaxError:
            return False
        statement = self.statement or self.node
        here = getattr(statement, "lineno", 0), getattr(statement, "col_offset", 0)
        scope = self.scope
        stored = stores(scope)
        for name in used - parameters(scope):
            if name in stored:
                if min(stored[name]) >= here:
                    return False
            elif scope is not self.source.tree and name not in stores(self.source.tree):
                imported = any(
                    (alias.asname or alias.name.partition(".")[0]) == name
                    for n in ast.walk(self.source.tree)
                    if isinstance(n, (ast.Import, ast.ImportFrom))
                    for alias in n.names
                )
                if not imported and name not in ("next", "iter"):
                    return False
        return True


@dataclass(slots=True)
class Sites:
    """The program's files as far as they were asked for."""

    root: str
    names: Names | None = None
    editable: Callable[[str], bool] = lambda path: True
    _sources: dict[str, Source | None] = field(default_factory=dict)

    def source(self, path: str) -> Source | None:
        """A file of the program; None when it is not the user's or cannot be read."""
        if path not in self._sources:
            self._sources[path] = self._read(path)
        return self._sources[path]

    def _read(self, path: str) -> Source | None:
        full = os.path.join(self.root, path)
        if not path.endswith(".py") or not self.editable(full):
            return None
        try:
            with open(full, "rb") as stream:
                return Source(path, decode(stream.read()).text)
        except (OSError, DecodingError, SyntaxError, ValueError, RecursionError):
            return None

    def at(self, location: Location | None) -> Site | None:
        """The site of a location."""
        source = None if location is None else self.source(location.path)
        node = None if source is None or location is None else source.node(location)
        return None if source is None or node is None else Site(source, node, self.names)


def one_of_each(devices: list[str]) -> list[str]:
    """The expressions without those that ask the same object again (`net.weight`, `net.bias`)."""
    kept: dict[str, str] = {}
    for text in devices:
        owner = text
        if text.startswith("next("):
            owner = text[len("next(") :].partition(".parameters()")[0]
        elif text.endswith(".device") and text.count(".") > 1:
            owner = text.removesuffix(".device").rpartition(".")[0]
        kept.setdefault(owner, text)
    return list(kept.values())


def parameters(scope: ast.AST) -> set[str]:
    """The names of a function's parameters."""
    if not isinstance(scope, FUNCTIONS):
        return set()
    a = scope.args
    return {p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs)}


def stores(scope: ast.AST) -> dict[str, list[tuple[int, int]]]:
    """Names that a scope itself binds, with the lines and (byte) columns."""
    found: dict[str, list[tuple[int, int]]] = {}
    for node in own_nodes(scope):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.setdefault(node.id, []).append((node.lineno, node.col_offset))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.setdefault(node.name, []).append((node.lineno, node.col_offset))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                found.setdefault(name, []).append((node.lineno, node.col_offset))
    return found


#: what only a tensor is asked for, or asked for first
OF_TENSORS: Final = frozenset(
    "device is_cuda new_zeros new_ones new_full new_tensor new_empty size dim numel detach unsqueeze".split()
)


def like_tensors(scope: ast.AST) -> list[str]:
    """Parameters that a function treats as tensors, in their order."""
    if not isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return []
    asked: dict[str, set[str]] = {}
    for node in own_nodes(scope):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            asked.setdefault(node.value.id, set()).add(node.attr)
    hinted = {
        a.arg
        for a in (*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs)
        if a.annotation is not None and ast.unparse(a.annotation).rpartition(".")[2] == "Tensor"
    }
    names = [a.arg for a in (*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs)]
    return [
        n
        for n in names
        if n in hinted
        or (n not in ("self", "cls") and (asked.get(n, set()) & OF_TENSORS or "shape" in asked.get(n, ())))
    ]


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope without what functions and classes in it contain."""
    pending = list(ast.iter_child_nodes(scope))
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            pending.extend(ast.iter_child_nodes(node))


def moves_in(scope: ast.AST, line: int, *, deep: bool = False) -> list[str]:
    """What other calls of the scope name as their device; the nearest above `line` first."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(scope) if deep else own_nodes(scope):
        if not isinstance(node, ast.Call):
            continue
        text = device_argument(node)
        if text is not None:
            below = node.lineno - line
            found.append((below + 10**6 if below > 0 else -below, text))
    return list(dict.fromkeys(text for _, text in sorted(found, key=lambda f: f[0])))


def device_argument(call: ast.Call) -> str | None:
    """The source of the device that a call names, None when it names none."""
    method = call.func.attr if isinstance(call.func, ast.Attribute) else None
    for keyword in call.keywords:
        if keyword.arg == "device":
            return source_text(keyword.value)
    if method == "to" and call.args:
        text = source_text(call.args[0])
        last = text.rpartition(".")[2]
        types = ("float", "double", "half", "long", "int", "bool", "dtype")
        return (
            None if last in types or last.startswith(("float", "bfloat", "int", "uint", "complex")) else text
        )
    if method == "cuda":
        return source_text(call.args[0]) if call.args else '"cuda"'
    return None


def source_text(node: ast.expr) -> str:
    """The source of a device, strings in double quotes."""
    text = ast.unparse(node)
    return text if '"' in text or "\\" in text else text.replace("'", '"')


def means(text: str, wanted: str | None) -> bool:
    """Whether a device's source text may mean `wanted`; a name always may."""
    literal = text.strip("'\"")
    if literal == text:
        return text not in ("None", "True", "False") and not text.isdigit()
    if wanted is None:
        return True
    return literal == wanted or (literal == "cuda" and wanted == "cuda:0")
