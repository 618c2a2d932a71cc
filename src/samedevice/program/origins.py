"""Where an expression's value was decided: back through names, parameters, attributes and imports."""

import ast
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from samedevice.model.diagnostic import Location
from samedevice.program import bindings as b
from samedevice.program.files import USER, kind_of
from samedevice.program.frames import (
    FUNCTIONS,
    Scope,
    Spot,
    ancestors,
    class_of,
    location_of,
    parent_of,
    scope_of,
    statement_of,
    text_of,
    tree_of,
)
from samedevice.program.values import MISSING, evaluate, is_module, is_tensor


@dataclass(frozen=True, slots=True)
class Turn:
    """One station on the way back from a use to where its value was decided.

    Attributes:
        how: "literal", "choice", "table", "omitted" (a caller left a parameter to its default),
            "argument", "assigned", "attribute", "global", "imported", "follows" (the device of a tensor or
            module), "unknown".
        name: the name, parameter or attribute followed; None for a literal.
        function: the function whose parameter was omitted.
        default: source text of the default that came into effect.
    """

    how: str
    location: Location
    text: str
    name: str | None = None
    function: str | None = None
    default: str | None = None
    filename: str = ""


@dataclass(frozen=True, slots=True)
class Where:
    """The surroundings of an expression: its callers (outermost first) and, if known, its variables."""

    filename: str
    callers: tuple[Spot, ...] = ()
    names: Mapping[str, Any] = field(default_factory=dict)
    globals: Mapping[str, Any] = field(default_factory=dict)


def trace_device(node: ast.expr, where: Where, device: str | None = None) -> list[Turn]:
    """The way of a device expression back to its decision; `device` is what it came out as."""
    return _Trace(device).back(node, where, 14)


def trace_value(node: ast.expr, where: Where) -> b.Binding | None:
    """The statement that made the object an expression stands for.

    Follows names, parameters to the callers' arguments, and calls that return their own object
    (`model.to(…)`); stops at the first statement that makes something.
    """
    seen: b.Binding | None = None
    for _ in range(12):
        node = receiver(node)
        if isinstance(node, ast.Call) and _is_wrapper(node):
            node = receiver(node.args[0])
        if not isinstance(node, ast.Name):
            break
        step = _definition(node, where)
        if step is None:
            break
        binding, where = step
        if binding.how in ("parameter", "import"):
            break
        seen = binding
        if binding.value is None or binding.how not in ("assign",) or not binding.whole:
            break
        node = binding.value
    return seen


#: methods that give back the object that they were called on (or stand for it)
SELF_METHODS = frozenset(
    {
        "to",
        "cuda",
        "cpu",
        "eval",
        "train",
        "half",
        "float",
        "double",
        "bfloat16",
        "requires_grad_",
        "share_memory",
    }
)


def receiver(node: ast.expr) -> ast.expr:
    """The object behind `x.to(…).eval()`."""
    while (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SELF_METHODS
    ):
        node = node.func.value
    return node


def _is_wrapper(node: ast.Call) -> bool:
    """`enumerate(loader)`, `tqdm(loader)`, `iter(loader)`: what iterates over its first argument."""
    called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    return called in ("enumerate", "tqdm", "iter", "list", "islice", "zip", "track", "trange") and bool(
        node.args
    )


def _definition(node: ast.Name, where: Where) -> tuple[b.Binding, Where] | None:
    """The binding that the name stands for, through parameters and closures."""
    scope = scope_of(node)
    line = node.lineno
    name = node.id
    while scope is not None:
        found = b.reaching(scope, name, line, where.filename) if _has_own_names(scope) else []
        if not found and isinstance(scope, ast.Module):
            found = b.bindings_in(scope, name, where.filename)[-1:]
        if found:
            if found[0].how != "parameter":
                return found[0], where
            given = _given(scope, name, where)
            if given is None:
                return found[0], where
            argument, outer = given
            if isinstance(argument, ast.Name):
                return _definition(argument, outer) or (found[0], where)
            holder = statement_of(argument)
            assert holder is not None
            return b.Binding(outer.filename, holder, argument, "assign"), outer
        if isinstance(scope, ast.Module):
            return None
        scope = scope_of(scope)
        line = 1 << 30
    return None


def _has_own_names(scope: Scope) -> bool:
    return isinstance(scope, (*FUNCTIONS, ast.Module))


#: what runs a generator that was made elsewhere
CONSUMERS = frozenset(
    {"next", "list", "tuple", "sum", "zip", "enumerate", "tqdm", "cat", "stack", "sorted", "max"}
)


def call_of(caller: Spot, function: str) -> ast.Call | None:
    """The call by which the caller runs `function`; a generator is run by the loop over it."""
    node = caller.node
    if isinstance(node, ast.Call) and _called(node) not in CONSUMERS:
        return node
    around = node if node is not None else caller.statement
    scope = None if around is None else scope_of(around)
    for place in (around, getattr(around, "iter", None), scope):
        found = [n for n in ast.walk(place) if _called(n) == function] if place is not None else []
        if len(found) == 1:
            call = found[0]
            return call if isinstance(call, ast.Call) else None
    return None


def _called(node: ast.AST) -> str | None:
    """Name of the function or method that the node calls."""
    if not isinstance(node, ast.Call):
        return None
    return node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", None)


def _given(scope: Scope, name: str, where: Where) -> tuple[ast.expr, Where] | None:
    """The caller's argument for a parameter, with the caller's surroundings."""
    if not where.callers or not isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return None
    caller = where.callers[-1]
    call = call_of(caller, scope.name)
    if call is None:
        return None
    argument, _ = b.argument_of(call, scope, name, b.is_method(scope))
    return None if argument is None else (argument, Where(caller.filename, where.callers[:-1]))


class _Trace:
    def __init__(self, device: str | None) -> None:
        self.device = device

    def turn(self, how: str, node: ast.AST, filename: str, **more: Any) -> Turn:
        at = node if isinstance(node, ast.Call) else (statement_of(node) or node)
        return Turn(how, location_of(at, filename), text_of(node, filename), filename=filename, **more)

    def back(self, node: ast.expr, where: Where, budget: int) -> list[Turn]:
        """The turns from `node` back, the decision last."""
        if budget == 0:
            return []
        filename = where.filename
        if isinstance(node, ast.Constant):
            return [self.turn("literal", node, filename)]
        if isinstance(node, ast.Call):
            return self._call(node, where, budget)
        if isinstance(node, ast.Name):
            return self._name(node, where, budget)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, where, budget)
        if isinstance(node, (ast.Dict, ast.List, ast.Tuple, ast.DictComp, ast.ListComp)):
            return [self.turn("table", node, filename)]
        if isinstance(node, ast.Subscript):
            return self.back(node.value, where, budget - 1)
        if isinstance(node, (ast.IfExp, ast.BoolOp)):
            for part in node.values if isinstance(node, ast.BoolOp) else (node.body, node.orelse):
                if isinstance(part, ast.Name):
                    turns = self._name(part, where, budget - 1, parameter=True)
                    if turns and turns[-1].how == "omitted":
                        return turns
            return [self.turn("choice", node, filename)]
        return [self.turn("unknown", node, filename)]

    def _call(self, node: ast.Call, where: Where, budget: int) -> list[Turn]:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in ("device", "str", "Device") and node.args:
            return self.back(node.args[0], where, budget - 1)
        if called in ("items", "values", "keys", "get") and isinstance(node.func, ast.Attribute):
            return self.back(node.func.value, where, budget - 1)
        if called in ("zip", "enumerate", "cycle", "list", "tuple") and node.args:
            return self.back(node.args[-1], where, budget - 1)
        returned = self._returned(node, where)
        if returned is not None:
            return self.back(returned, Where(where.filename), budget - 1)
        return [self.turn("unknown", node, where.filename)]

    def _returned(self, call: ast.Call, where: Where) -> ast.expr | None:
        """What a function of the same file returns; of several the one that names the device."""
        tree = tree_of(where.filename)
        if tree is None or not isinstance(call.func, ast.Name):
            return None
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name == call.func.id:
                values = [
                    n.value for n in ast.walk(node) if isinstance(n, ast.Return) and n.value is not None
                ]
                kind = (self.device or "").partition(":")[0]
                for value in values:
                    words = [n.value for n in ast.walk(value) if isinstance(n, ast.Constant)]
                    if any(isinstance(w, str) and w.partition(":")[0] == kind for w in words):
                        return value
        return None

    def _name(self, node: ast.Name, where: Where, budget: int, parameter: bool = False) -> list[Turn]:
        scope = scope_of(node)
        line = node.lineno
        while scope is not None:
            if isinstance(scope, ast.Module):
                return self._global(node.id, where, budget)
            found = b.reaching(scope, node.id, line, where.filename)
            if found:
                first = self._likeliest(found)
                given = any(f.how == "parameter" for f in found)
                if given and first.how != "parameter" and (parameter or _fills_default(first, node.id)):
                    # `if device is None: device = "cpu"`: whoever left it out has decided.
                    turns = self._parameter(scope, node.id, where, budget)
                    if turns and turns[-1].how == "omitted":
                        return turns
                if first.how == "parameter":
                    return self._parameter(scope, node.id, where, budget)
                if first.value is None:
                    return [self.turn("unknown", first.node, where.filename, name=node.id)]
                here = self.turn("assigned", first.node, where.filename, name=node.id)
                return [here, *self.back(first.value, where, budget - 1)]
            scope, line = scope_of(scope), 1 << 30
        return []

    def _likeliest(self, found: list[b.Binding]) -> b.Binding:
        """Of several bindings the one that names the device that came out."""
        if self.device is None or len(found) == 1:
            return found[0]
        kind = self.device.partition(":")[0]
        for binding in found:
            words = (
                [n.value for n in ast.walk(binding.value) if isinstance(n, ast.Constant)]
                if binding.value
                else []
            )
            if any(isinstance(w, str) and w.partition(":")[0] == kind for w in words):
                return binding
        return found[0]

    def _global(self, name: str, where: Where, budget: int) -> list[Turn]:
        tree = tree_of(where.filename)
        found = b.bindings_in(tree, name, where.filename)[::-1] if tree is not None else []
        if not found:
            return []
        first = self._likeliest(found)
        if first.how == "import":
            return self._imported(first, name, where, budget)
        if first.value is None:
            return [self.turn("unknown", first.node, where.filename, name=name)]
        here = self.turn("global", first.node, where.filename, name=name)
        return [here, *self.back(first.value, Where(where.filename), budget - 1)]

    def _imported(self, binding: b.Binding, name: str, where: Where, budget: int) -> list[Turn]:
        node = binding.node
        here = self.turn("imported", node, where.filename, name=name)
        if isinstance(node, ast.ImportFrom):
            original = next((a.name for a in node.names if (a.asname or a.name) == name), name)
            for module_name, module in list(sys.modules.items()):
                file = getattr(module, "__file__", None)
                tail = (node.module or "").rpartition(".")[2]
                if (
                    isinstance(file, str)
                    and tail
                    and module_name.rpartition(".")[2] == tail
                    and kind_of(file) == USER
                    and hasattr(module, original)
                ):
                    return [here, *self._global(original, Where(file), budget - 1)]
        return [here]

    def _parameter(self, scope: Scope, name: str, where: Where, budget: int) -> list[Turn]:
        if not isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return []
        if where.callers:
            call = call_of(where.callers[-1], scope.name)
            outer = Where(where.callers[-1].filename, where.callers[:-1])
            if call is not None:
                return self._through_call(call, scope, name, where, outer, budget)
            return []
        for filename, call in self._possible_calls(scope, where):
            turns = self._through_call(call, scope, name, where, Where(filename), budget)
            if turns and turns[-1].how != "unknown":
                return turns
        return []

    def _possible_calls(
        self, scope: ast.FunctionDef | ast.AsyncFunctionDef, where: Where
    ) -> list[tuple[str, ast.Call]]:
        """Calls of the function, when nothing recorded which one it was."""
        definition = class_of(scope)
        files = list(dict.fromkeys([where.filename, *b.user_files()]))
        if scope.name == "__init__" and definition is not None:
            kind = type(where.names["self"]) if "self" in where.names else None
            above = b.super_init_calls(kind, definition) if kind is not None else []
            return above or b.calls_of({definition.name}, files)
        return b.calls_of({scope.name}, files)

    def _through_call(
        self,
        call: ast.Call,
        scope: ast.FunctionDef | ast.AsyncFunctionDef,
        name: str,
        where: Where,
        outer: Where,
        budget: int,
    ) -> list[Turn]:
        argument, known = b.argument_of(call, scope, name, b.is_method(scope))
        if argument is not None:
            here = self.turn("argument", call, outer.filename, name=name, function=_title(scope))
            return [here, *self.back(argument, outer, budget - 1)]
        default = b.default_of(scope, name)
        if default is None:
            return []
        if not known:
            return self._forwarded(call, scope, name, where, outer, budget)
        if isinstance(default, ast.Constant) and default.value is None and self.device is None:
            return []
        text = text_of(default, where.filename)
        return [
            self.turn("omitted", call, outer.filename, name=name, function=_title(scope), default=text),
        ]

    def _forwarded(
        self,
        call: ast.Call,
        scope: ast.FunctionDef | ast.AsyncFunctionDef,
        name: str,
        where: Where,
        outer: Where,
        budget: int,
    ) -> list[Turn]:
        """`Meter(classes, **kwargs)` in a function of `**kwargs`: its callers name the device, or leave it out."""
        between = b.forwarding(call, name)
        if between is None or budget <= 1:
            return []
        if outer.callers:
            found = call_of(outer.callers[-1], between.name)
            further = Where(outer.callers[-1].filename, outer.callers[:-1])
            calls = [] if found is None else [(further, found)]
        else:
            calls = [(Where(filename), one) for filename, one in self._possible_calls(between, outer)]
        if len(calls) != 1:
            return []
        further, found = calls[0]
        written = next((k.value for k in found.keywords if k.arg == name), None)
        if written is not None:
            here = self.turn("argument", found, further.filename, name=name, function=_title(scope))
            return [here, *self.back(written, further, budget - 1)]
        if any(k.arg is None for k in found.keywords):
            return self._forwarded(found, scope, name, where, further, budget - 1)
        default = b.default_of(scope, name)
        assert default is not None
        text = text_of(default, where.filename)
        return [
            self.turn("omitted", found, further.filename, name=name, function=_title(scope), default=text),
        ]

    def _attribute(self, node: ast.Attribute, where: Where, budget: int) -> list[Turn]:
        holder = evaluate(node.value, where.names, where.globals) if where.names or where.globals else MISSING
        if node.attr == "device" and holder is not MISSING and (is_tensor(holder) or is_module(holder)):
            return [self.turn("follows", node, where.filename, name=node.attr)]
        kind = type(holder) if holder is not MISSING else self._class_by_name(node, where)
        if kind is None:
            return [self.turn("unknown", node, where.filename, name=node.attr)]
        if kind.__module__ == "argparse":
            return self._option(node, where)
        stores = [
            s for s in b.attribute_bindings(kind, node.attr) if s.how == "assign" and s.value is not None
        ]
        stores.sort(key=lambda s: getattr(b.method_of(s.node), "name", "") != "__init__")
        if not stores:
            return [self.turn("unknown", node, where.filename, name=node.attr)]
        store = stores[0]
        assert store.value is not None
        method = b.method_of(store.node)
        first = method.args.args[0].arg if method is not None and method.args.args else "self"
        inner = Where(store.filename, names={first: holder, "self": holder} if holder is not MISSING else {})
        here = self.turn("attribute", store.node, store.filename, name=node.attr)
        return [here, *self.back(store.value, inner, budget - 1)]

    @staticmethod
    def _class_by_name(node: ast.Attribute, where: Where) -> type | None:
        if not isinstance(node.value, ast.Name):
            return None
        method = b.method_of(node)
        definition = class_of(node)
        if method is None or definition is None or not method.args.args:
            return None
        if method.args.args[0].arg != node.value.id or not isinstance(parent_of(method), ast.ClassDef):
            return None
        for module in list(sys.modules.values()):
            if getattr(module, "__file__", None) == where.filename:
                found = getattr(module, definition.name, None)
                return found if isinstance(found, type) else None
        return None

    def _option(self, node: ast.Attribute, where: Where) -> list[Turn]:
        """`args.device` of argparse: the default of the option."""
        flag = "--" + node.attr.replace("_", "-")
        for filename, call in b.calls_of({"add_argument"}, b.user_files()):
            written = [a.value for a in call.args if isinstance(a, ast.Constant)]
            if flag in written or node.attr in written or "--" + node.attr in written:
                return [self.turn("literal", call, filename, name=node.attr)]
        return [self.turn("unknown", node, where.filename, name=node.attr)]


def _fills_default(binding: b.Binding, name: str) -> bool:
    """The binding gives a value to a parameter that was left at None."""
    for above in ancestors(binding.node):
        if isinstance(above, ast.If):
            return any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(above.test))
        if isinstance(above, FUNCTIONS):
            break
    value = binding.value
    return isinstance(value, (ast.BoolOp, ast.IfExp)) and any(
        isinstance(n, ast.Name) and n.id == name for n in ast.walk(value)
    )


def _title(scope: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """`Class` for its `__init__`, `Class.method`, or the function's name."""
    definition = class_of(scope) if isinstance(parent_of(scope), ast.ClassDef) else None
    if definition is None:
        return scope.name
    return definition.name if scope.name == "__init__" else f"{definition.name}.{scope.name}"
