"""What expressions of the program stand for: classes, functions, callers, attributes, loaders."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Any

from samedevice.live.points import Point
from samedevice.live.sources import Found, Sources
from samedevice.program import bindings as b
from samedevice.program.frames import FUNCTIONS, ancestors, scope_of
from samedevice.program.values import MISSING, evaluate_in, is_module, is_tensor

LOADERS = ("DataLoader", "StatefulDataLoader")
#: methods that give back their own object
SELF_METHODS = ("to", "cuda", "cpu", "eval", "train", "half", "float", "double", "requires_grad_", "bfloat16")


@dataclass(frozen=True, slots=True, eq=False)
class Where:
    """The surroundings of an expression.

    Attributes:
        point: the frame that evaluates it, when it is on the stack.
        call: the call through which the search went into this function, with its own surroundings.
        owner: class of `self`, when the search came through an instance.
    """

    file: str
    line: int
    point: Point | None = None
    call: "tuple[ast.Call, Where] | None" = None
    owner: Found | None = None


@dataclass(slots=True)
class Resolver:
    """Finds what names, attributes and calls stand for.

    Attributes:
        stray: device of the operand out of place: "cpu", "cuda:1", "meta".
        device_of: device of a live tensor.
        effort: expressions looked at so far.
    """

    sources: Sources
    stray: str
    device_of: Callable[[Any], str | None]
    effort: int = 0
    _busy: set[tuple[int, str]] = field(default_factory=set)

    def is_loader(self, iterable: ast.expr, where: Where) -> bool:
        """The loop runs over a DataLoader, perhaps through `enumerate`, `tqdm`, `zip`."""
        for part in ast.walk(iterable):
            if isinstance(part, ast.Call) and called(part.func) in LOADERS:
                return True
            if isinstance(part, (ast.Name, ast.Attribute)) and isinstance(
                getattr(part, "ctx", None), ast.Load
            ):
                if where.point is not None and where.point.frame is not None:
                    value = evaluate_in(part, where.point.frame)
                    if value is not MISSING:
                        if any(k.__name__ in LOADERS for k in type(value).__mro__):
                            return True
                        continue
                if any(
                    isinstance(v, ast.Call) and called(v.func) in LOADERS for v in self._values(part, where)
                ):
                    return True
        return False

    def _values(self, node: ast.expr, where: Where, depth: int = 5) -> Iterator[ast.expr]:
        """The expressions that a name or attribute was bound to, through parameters and returns."""
        for value, inner in self.definitions(node, where, depth):
            del inner
            yield value

    def definitions(self, node: ast.expr, where: Where, depth: int = 6) -> Iterator[tuple[ast.expr, Where]]:
        """What made the object that an expression stands for: calls and literals, with their surroundings."""
        if depth == 0:
            return
        if isinstance(node, ast.Name):
            if _is_self(node):
                yield node, where
                return
            scope = scope_of(node)
            line = max(where.line, node.lineno)
            while scope is not None:
                if not isinstance(scope, ast.Lambda):
                    found = b.reaching(scope, node.id, line, where.file)
                    if not found and isinstance(scope, ast.Module):
                        found = b.bindings_in(scope, node.id, where.file)[::-1]
                    for binding in _alternatives(found):
                        if binding.how == "parameter" and isinstance(
                            scope, (ast.FunctionDef, ast.AsyncFunctionDef)
                        ):
                            for argument, outer in self.arguments(scope, node.id, where):
                                yield from self.definitions(argument, outer, depth - 1)
                        elif binding.value is not None:
                            if binding.how == "for":
                                inner = replace(where, line=binding.line)
                                yield binding.value, inner
                                yield from self.definitions(binding.value, inner, depth - 1)
                            else:
                                yield from self.definitions(
                                    binding.value, replace(where, line=binding.line), depth - 1
                                )
                    if found:
                        return
                if isinstance(scope, ast.Module):
                    return
                scope, line = scope_of(scope), 1 << 30
        elif isinstance(node, ast.Attribute):
            for store, inner in self.attribute_stores(node, where):
                if store.value is not None:
                    yield from self.definitions(store.value, inner, depth - 1)
        elif isinstance(node, ast.Call):
            method = node.func.attr if isinstance(node.func, ast.Attribute) else None
            if method in (
                "to",
                "cuda",
                "cpu",
                "eval",
                "train",
                "half",
                "float",
                "double",
                "requires_grad_",
                "bfloat16",
            ):
                assert isinstance(node.func, ast.Attribute)
                yield node, where
                yield from self.definitions(node.func.value, where, depth - 1)
                return
            yield node, where
            callee = self.callee(node, where)
            if callee is not None and not isinstance(callee.node, ast.ClassDef):
                for value, inner in self.returns(callee, node, where):
                    yield from self.definitions(value, inner, depth - 1)
        elif isinstance(node, ast.IfExp):
            yield from self.definitions(node.body, where, depth - 1)
            yield from self.definitions(node.orelse, where, depth - 1)
        else:
            yield node, where

    # -- parameters

    def arguments(
        self, scope: ast.FunctionDef | ast.AsyncFunctionDef, name: str, where: Where
    ) -> Iterator[tuple[ast.expr, Where]]:
        """What callers give for a parameter: the one call on the stack, else every call in the sources."""
        calls = list(self.callers(scope, where))
        for call, outer in calls[:4]:
            bound = b.is_method(scope) and not (
                isinstance(call.func, ast.Attribute) and self._names_class(call.func.value, outer)
            )
            argument, known = b.argument_of(call, scope, name, bound)
            if argument is not None:
                yield argument, outer
            elif known and (default := b.default_of(scope, name)) is not None:
                yield default, Where(where.file, default.lineno)

    def _names_class(self, node: ast.expr, where: Where) -> bool:
        if isinstance(node, ast.Call) and called(node.func) == "super":
            return False
        found = self.sources.definition(node, where.file)
        return found is not None and isinstance(found.node, ast.ClassDef)

    def callers(
        self, scope: ast.FunctionDef | ast.AsyncFunctionDef, where: Where
    ) -> Iterator[tuple[ast.Call, Where]]:
        """Calls that may have run the function."""
        if where.call is not None and where.call[1] is not where:
            yield where.call
            return
        point = where.point
        if point is not None and point.scope is scope:
            caller = point.caller
            if caller is not None and not isinstance(caller.node, ast.Call):
                # A generator is resumed by the loop over it, not by the call that made it.
                for call in _calls_in(caller.statement, scope.name):
                    yield call, Where(caller.file, caller.line, caller)
                return
            if caller is not None and isinstance(caller.node, ast.Call) and self._direct(caller, point):
                yield caller.node, Where(caller.file, caller.line, caller)
            if caller is not None:
                return
        owner = self.sources.class_around(scope, where.file) if b.is_method(scope) else None
        if owner is not None and scope.name == "__init__":
            yield from self._constructors(owner, scope)
            return
        if scope.name in ("forward", "__call__"):
            return
        for found in self.sources.calls(scope.name)[:6]:
            assert isinstance(found.node, ast.Call)
            yield found.node, Where(found.file, found.node.lineno)

    def _constructors(self, owner: Found, init: ast.AST) -> Iterator[tuple[ast.Call, Where]]:
        """Calls that run the class's own `__init__`: constructions, and `super().__init__(…)` of its heirs."""
        for heir in self.sources.heirs(owner):
            method = self.sources.method(heir, "__init__")
            if method is None or method.node is init:
                continue
            for node in ast.walk(method.node):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and node.func.attr == "__init__"
                ):
                    yield node, Where(method.file, node.lineno, owner=heir)
        for made in self.sources.constructions(owner):
            assert isinstance(made.node, ast.Call)
            kind = self.sources.made_class(made)
            method = self.sources.method(kind, "__init__") if kind is not None else None
            if method is None or method.node is init:
                yield made.node, Where(made.file, made.node.lineno)

    def _direct(self, caller: Point, point: Point) -> bool:
        """The caller's call hands its arguments to the function itself, not to a container of it."""
        if caller.frame is None or point.frame is None:
            return True
        assert isinstance(caller.node, ast.Call)
        given = [
            evaluate_in(a, caller.frame)
            for a in [*caller.node.args, *(k.value for k in caller.node.keywords)]
        ]
        tensors = [v for v in given if is_tensor(v)]
        if not tensors:
            return True
        held = list(point.frame.f_locals.values())
        return any(t is h for t in tensors for h in held) or not any(is_tensor(h) for h in held)

    # -- attributes

    def attribute_stores(self, node: ast.Attribute, where: Where) -> Iterator[tuple[b.Binding, Where]]:
        """Where the attribute gets its value, in the class of the object."""
        owner = self.owner_of(node.value, where)
        if owner is None:
            return
        for store in self.sources.stores(owner, node.attr):
            if (
                store.how == "augmented"
                and store.value is not None
                and any(isinstance(n, ast.Attribute) and n.attr == node.attr for n in ast.walk(store.value))
            ):
                continue
            yield store, Where(store.filename, store.line, owner=owner)

    def owner_of(self, node: ast.expr, where: Where) -> Found | None:
        """The class of the program whose instance an expression stands for."""
        live = self._live(node, where)
        if live is not MISSING and live is not None:
            for base in type(live).__mro__:
                found = self._class_named(base)
                if found is not None:
                    return found
            return None
        if isinstance(node, ast.Name) and _is_self(node):
            return where.owner or self.sources.class_around(node, where.file)
        if isinstance(node, ast.Call) and called(node.func) == "super":
            return self.sources.class_around(node, where.file)
        for value, inner in self.definitions(node, where):
            if isinstance(value, ast.Name) and _is_self(value):
                return inner.owner or self.sources.class_around(value, inner.file)
            if isinstance(value, ast.Call):
                found = self.sources.definition(value.func, inner.file)
                if found is not None and isinstance(found.node, ast.ClassDef):
                    return found
                if isinstance(value.func, ast.Attribute) and found is not None:
                    # A class method that returns `cls(…)`.
                    owner = self.sources.class_around(found.node, found.file)
                    if owner is not None:
                        return owner
        return None

    def _class_named(self, kind: type) -> Found | None:
        """The definition of a live class: by the file of its module, or of its methods (a notebook has no file)."""
        files = [file for file, node in b.class_definitions(kind) if node.name == kind.__name__]
        files += [f.__code__.co_filename for f in vars(kind).values() if isinstance(f, FunctionType)]
        for file in dict.fromkeys(files):
            known = self.sources.known(file)
            for inner in self.sources.classes(known):
                if inner.name == kind.__name__:
                    return Found(inner, known)
        return None

    @staticmethod
    def _live(node: ast.expr, where: Where) -> Any:
        if where.point is None or where.point.frame is None:
            return MISSING
        return evaluate_in(node, where.point.frame)

    # -- calls

    def callee(self, node: ast.Call, where: Where) -> Found | None:
        """The function (of the program) that a call runs; for an instance its `forward` or `__call__`."""
        live = self._live(node.func, where)
        if live is not MISSING and live is not None:
            function = getattr(live, "__func__", live)
            code = getattr(function, "__code__", None)
            if code is not None:
                found = b.function_named(code.co_filename, code.co_name, code.co_firstlineno)
                return (
                    None
                    if found is None or code.co_filename not in self.sources.files
                    else Found(found, code.co_filename)
                )
        found = self.sources.definition(node.func, where.file)
        if found is not None:
            return found
        if isinstance(node.func, ast.Name) and (listed := self._listed(node.func, where)) is not None:
            return listed
        if isinstance(node.func, ast.Attribute):
            owner = self.owner_of(node.func.value, where)
            if owner is not None and (method := self.sources.method(owner, node.func.attr)) is not None:
                return method
        owner = (
            self.owner_of(node.func, where) if live is MISSING or live is None or is_module(live) else None
        )
        if owner is not None:
            return self.sources.method(owner, "forward") or self.sources.method(owner, "__call__")
        return None

    def _listed(self, name: ast.Name, where: Where) -> Found | None:
        """The function in `for callback in callbacks: callback(…)`, when the list is written out."""
        for value, inner in self.definitions(name, where):
            for listed, deeper in (
                self.definitions(value, inner)
                if isinstance(value, (ast.Name, ast.Attribute))
                else [(value, inner)]
            ):
                if isinstance(listed, (ast.List, ast.Tuple)) and listed.elts:
                    found = self.sources.definition(listed.elts[0], deeper.file)
                    if found is not None and not isinstance(found.node, ast.ClassDef):
                        return found
        return None

    def returns(self, callee: Found, call: ast.Call, where: Where) -> Iterator[tuple[ast.expr, Where]]:
        """What the function returns or yields, seen from the call."""
        assert isinstance(callee.node, (ast.FunctionDef, ast.AsyncFunctionDef))
        owner = None
        if b.is_method(callee.node) and isinstance(call.func, ast.Attribute):
            owner = self.owner_of(call.func.value, where)
        for node in _own(callee.node):
            if isinstance(node, (ast.Return, ast.Yield)) and node.value is not None:
                yield node.value, Where(callee.file, node.value.lineno, None, (call, where), owner)


def _is_self(node: ast.Name) -> bool:
    """The first parameter of the method around it."""
    method = b.method_of(node)
    return (
        method is not None
        and b.is_method(method)
        and bool(method.args.args)
        and method.args.args[0].arg == node.id
    )


def _alternatives(found: list[b.Binding]) -> list[b.Binding]:
    """The bindings that a use may see: up to the first that is not in a branch."""
    seen: list[b.Binding] = []
    for binding in found[:4]:
        seen.append(binding)
        if not any(isinstance(above, (ast.If, ast.Try)) for above in ancestors(binding.node)):
            break
    return seen


def _calls_in(statement: ast.AST | None, name: str) -> list[ast.Call]:
    """Calls of a function by name in a statement's head."""
    head = getattr(statement, "iter", statement)
    return (
        [n for n in ast.walk(head) if isinstance(n, ast.Call) and called(n.func) == name]
        if head is not None
        else []
    )


def _own(function: ast.AST) -> Iterator[ast.AST]:
    stack = list(ast.iter_child_nodes(function))
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            stack.extend(ast.iter_child_nodes(node))


def called(func: ast.expr) -> str:
    """The last name of what is called."""
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
