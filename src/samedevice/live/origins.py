"""Where a value came from: back through names, arguments, attributes and calls, by reading the sources.

Live values, where frames are at hand, prune the search: an operand that is seen to lie elsewhere
is not the one that is looked for.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from samedevice.live.expressions import (
    added,
    comprehension_source,
    is_dtype,
    item_source,
    literal_device,
    makes_library_module,
)
from samedevice.live.points import Point
from samedevice.live.resolving import Resolver, Where, called
from samedevice.live.sources import Found
from samedevice.model.scene import Action
from samedevice.program import bindings as b
from samedevice.program.frames import Scope, scope_of, tree_of
from samedevice.program.values import evaluate_in, is_tensor
from samedevice.torch_facts.api import FACTORIES, HOST_FACTORIES, LIKE_FACTORIES, NEW_METHODS

MOVES = ("to", "cuda", "cpu", "xpu", "mps")
#: methods of a module that give its parameters or buffers
STATE_METHODS = ("parameters", "named_parameters", "buffers", "named_buffers", "state_dict")
#: functions of origins that are a module, or the parameters of the module that the origin's node names
MODULE, MODULE_STATE = "nn.Module", "Module.parameters"
_MOST_STEPS = 24
_MOST_ORIGINS = 12
#: expressions looked at for one crash; what needs more is not told by reading
_MOST_EFFORT = 4_000


@dataclass(frozen=True, slots=True)
class Station:
    """A place that the value passed on its way: kept in an attribute, bound to a name, handed on."""

    how: str  # "attribute", "name", "for", "unpack", "item", "argument", "default", "global", "return"
    node: ast.AST
    file: str
    name: str = ""
    owner: Found | None = None
    holder: Any = None
    source: ast.expr | None = None
    point: Point | None = None
    use: ast.AST | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value was made.

    Attributes:
        explicit: the call named a device; None when it is no factory.
        device: "cpu" or "gpu" as far as the text tells; None when a variable decides.
        stations: from the use back to the origin.
        chosen: the expression that names the device.
        recorded: it was seen while the program ran, not only read.
    """

    action: Action
    node: ast.AST
    file: str
    function: str
    explicit: bool | None = None
    device: str | None = None
    chosen: ast.expr | None = None
    stations: tuple[Station, ...] = ()
    where: "Where | None" = None
    recorded: bool = False

    def via(self, how: str) -> Station | None:
        """The first station of a kind, nearest to the use."""
        return next((s for s in self.stations if s.how == how), None)


class Tracer(Resolver):
    """Looks for origins of values that lie on the stray's device."""

    def trace(self, node: ast.expr, where: Where, stations: tuple[Station, ...] = ()) -> list[Origin]:
        """The origins of an expression's value, the likeliest first."""
        found = list(self._back(node, where, stations))
        unique: dict[tuple[int, str], Origin] = {}
        for origin in found:
            held = origin.via("attribute")
            unique.setdefault((id(origin.node), held.name if held is not None else ""), origin)
        return sorted(unique.values(), key=self.score)[:_MOST_ORIGINS]

    def score(self, origin: Origin) -> int:
        """How well an origin explains that the value lies where it lies; 0 is best."""
        if self.stray != "cpu":
            return 0 if origin.explicit or origin.action in (Action.MOVED, Action.LOADED) else 2
        if origin.device == "cpu" and origin.action is not Action.BATCHED:
            return 0
        if origin.action is Action.BATCHED:
            return 1
        return 3 if origin.explicit else 2

    # -- expressions -------------------------------------------------------------------------------

    def _elsewhere(self, node: ast.expr, where: Where) -> bool:
        """The value is alive and seen to lie on another device than the stray."""
        if (
            where.point is None
            or where.point.frame is None
            or not isinstance(node, (ast.Name, ast.Attribute, ast.Subscript))
        ):
            return False
        value = evaluate_in(node, where.point.frame)
        if is_tensor(value):
            return self.device_of(value) != self.stray
        return isinstance(value, (int, float, str, bool, type(None)))

    def _back(self, node: ast.expr, where: Where, stations: tuple[Station, ...]) -> Iterator[Origin]:
        if len(stations) > _MOST_STEPS or self.effort > _MOST_EFFORT or self._elsewhere(node, where):
            return
        self.effort += 1
        key = (id(node), where.file)
        if key in self._busy:
            return
        self._busy.add(key)
        try:
            yield from self._dispatch(node, where, stations)
        finally:
            self._busy.discard(key)

    def _dispatch(self, node: ast.expr, where: Where, stations: tuple[Station, ...]) -> Iterator[Origin]:
        if isinstance(node, ast.Name):
            yield from self._name(node, where, stations)
        elif isinstance(node, ast.Attribute):
            yield from self._attribute(node, where, stations)
        elif isinstance(node, ast.Call):
            yield from self._call(node, where, stations)
        elif isinstance(node, (ast.Subscript, ast.Starred, ast.Await)):
            yield from self._back(node.value, where, stations)
        elif isinstance(
            node, (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.List, ast.Tuple, ast.Set)
        ):
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr) and not (isinstance(node, ast.IfExp) and child is node.test):
                    yield from self._back(child, where, stations)
        elif isinstance(node, ast.Dict):
            for value in node.values:
                yield from self._back(value, where, stations)
        elif isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
            yield from self._back(node.elt, where, stations)
        elif isinstance(node, (ast.DictComp, ast.NamedExpr)):
            yield from self._back(node.value, where, stations)

    # -- names -------------------------------------------------------------------------------------

    def _name(self, node: ast.Name, where: Where, stations: tuple[Station, ...]) -> Iterator[Origin]:
        scope = scope_of(node)
        line = max(where.line, getattr(node, "lineno", where.line))
        while scope is not None:
            if isinstance(scope, ast.Lambda):
                scope = scope_of(scope)
                continue
            found = b.reaching(scope, node.id, line, where.file)
            comprehension = comprehension_source(node)
            if comprehension is not None:
                yield from self._iterated(node, comprehension, comprehension, where, stations)
                return
            if not found and isinstance(scope, ast.Module):
                found = b.bindings_in(scope, node.id, where.file)[::-1]
            whole = [f for f in found if f.how != "augmented"] or found
            if whole:
                yield from self._bound(node, whole[0], scope, where, stations)
                return
            if isinstance(scope, ast.Module):
                return
            scope, line = scope_of(scope), 1 << 30

    def _bound(
        self, node: ast.Name, binding: b.Binding, scope: Scope, where: Where, stations: tuple[Station, ...]
    ) -> Iterator[Origin]:
        if binding.how == "parameter":
            if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield from self._parameter(scope, node, where, stations)
            return
        if binding.how == "import":
            yield from self._imported(node, where, stations)
            return
        if binding.value is None:
            return
        inner = replace(where, line=binding.line)
        if b.is_empty(binding.value):
            for put in added(scope, node.id):
                station = Station("item", put, where.file, node.id, source=put, point=where.point, use=node)
                yield from self._back(put, replace(where, line=put.lineno), (*stations, station))
            return
        if binding.how == "for":
            yield from self._iterated(node, binding.node, binding.value, inner, stations)
            return
        how = "global" if isinstance(scope, ast.Module) else "name"
        how = how if binding.whole else "unpack"
        station = Station(
            how, binding.node, where.file, node.id, source=binding.value, point=where.point, use=node
        )
        yield from self._back(binding.value, inner, (*stations, station))

    def _imported(self, node: ast.Name, where: Where, stations: tuple[Station, ...]) -> Iterator[Origin]:
        known = self.sources.imports(where.file).get(node.id)
        if known is None or not known[0] or not known[1]:
            return
        tree = tree_of(known[0])
        found = b.bindings_in(tree, known[1], known[0])[::-1] if tree is not None else []
        if found and found[0].value is not None:
            station = Station("global", found[0].node, known[0], known[1], source=found[0].value)
            yield from self._back(found[0].value, Where(known[0], 1 << 30), (*stations, station))

    def _iterated(
        self, node: ast.Name, binder: ast.AST, iterable: ast.expr, where: Where, stations: tuple[Station, ...]
    ) -> Iterator[Origin]:
        """A loop's variable: a batch of a loader, or an item of what the loop runs over."""
        station = Station("for", binder, where.file, node.id, source=iterable, point=where.point, use=node)
        here = (*stations, station)
        if self.is_loader(iterable, where):
            yield Origin(Action.BATCHED, binder, where.file, "DataLoader", None, "cpu", None, here, where)
            return
        inner = item_source(iterable, node.id, binder)
        before = len(here)
        any_found = False
        for origin in self._back(inner, where, here):
            any_found = True
            yield origin
        if not any_found and before:
            yield Origin(Action.BATCHED, binder, where.file, "for", None, None, None, here, where)

    # -- parameters --------------------------------------------------------------------------------

    def _parameter(
        self,
        scope: ast.FunctionDef | ast.AsyncFunctionDef,
        node: ast.Name,
        where: Where,
        stations: tuple[Station, ...],
    ) -> Iterator[Origin]:
        for argument, outer in self.arguments(scope, node.id, where):
            station = Station("argument", argument, outer.file, node.id, point=outer.point, use=node)
            yield from self._back(argument, outer, (*stations, station))

    # -- attributes --------------------------------------------------------------------------------

    def _attribute(
        self, node: ast.Attribute, where: Where, stations: tuple[Station, ...]
    ) -> Iterator[Origin]:
        if node.attr in ("T", "mT", "H", "data", "real", "imag", "grad"):
            yield from self._back(node.value, where, stations)
            return
        found = False
        for store, inner in self.attribute_stores(node, where):
            if store.value is None:
                continue
            owner = self.sources.class_around(store.node, store.filename)
            station = Station(
                "attribute",
                store.node,
                store.filename,
                node.attr,
                owner,
                self._live(node.value, where),
                store.value,
                where.point,
                node,
            )
            found = True
            yield from self._back(store.value, inner, (*stations, station))
        if not found:
            for store in self._foreign(node):
                station = Station(
                    "attribute",
                    store.node,
                    store.filename,
                    node.attr,
                    None,
                    self._live(node.value, where),
                    store.value,
                    where.point,
                    node,
                )
                if store.value is not None:
                    found = True
                    yield from self._back(
                        store.value, Where(store.filename, store.line), (*stations, station)
                    )
        if not found:
            yield from self._back(node.value, where, stations)

    def _foreign(self, node: ast.Attribute) -> list[b.Binding]:
        stores = self.sources.foreign_stores(node.attr)
        return stores[:3]

    # -- calls -------------------------------------------------------------------------------------

    def _call(self, node: ast.Call, where: Where, stations: tuple[Station, ...]) -> Iterator[Origin]:
        name = self.sources.qualified(node.func, where.file) or ""
        device = next((k.value for k in node.keywords if k.arg == "device"), None)
        made = self._factory(node, name, device, where, stations)
        if made is not None:
            yield from made
            return
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if method in MOVES and isinstance(node.func, ast.Attribute) and not name:
            yield from self._moved(node, node.func.value, method, where, stations)
            return
        if method in STATE_METHODS and isinstance(node.func, ast.Attribute) and not name:
            yield Origin(
                Action.DERIVED, node.func.value, where.file, MODULE_STATE, None, None, None, stations, where
            )
            return
        if method == "" and called(node.func) == "getattr" and len(node.args) > 1:
            yield Origin(Action.DERIVED, node, where.file, "getattr", None, None, None, stations, where)
            return
        callee = self.callee(node, where)
        if self._makes_module(node, name, callee):
            yield Origin(Action.CREATED, node, where.file, MODULE, False, "cpu", None, stations, where)
            return
        if callee is not None and isinstance(callee.node, ast.ClassDef):
            yield from self._arguments_of(node, where, stations)
            return
        if callee is not None:
            any_found = False
            for value, inner in self.returns(callee, node, where):
                station = Station("return", value, inner.file, getattr(callee.node, "name", ""), use=node)
                for origin in self._back(value, inner, (*stations, station)):
                    any_found = True
                    yield origin
            if any_found:
                return
        if isinstance(node.func, ast.Attribute) and not name:
            yield from self._back(node.func.value, where, stations)
        yield from self._arguments_of(node, where, stations)

    def _makes_module(self, node: ast.Call, name: str, callee: Found | None) -> bool:
        if callee is not None:
            return isinstance(callee.node, ast.ClassDef) and self.sources.is_module_class(callee)
        return makes_library_module(name)

    def _arguments_of(self, node: ast.Call, where: Where, stations: tuple[Station, ...]) -> Iterator[Origin]:
        for argument in (*node.args, *(k.value for k in node.keywords if k.arg != "device")):
            yield from self._back(argument, where, stations)

    def _factory(
        self, node: ast.Call, name: str, device: ast.expr | None, where: Where, stations: tuple[Station, ...]
    ) -> Iterator[Origin] | None:
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if name.startswith("torch."):
            bare = name.removeprefix("torch.")
            if bare in LIKE_FACTORIES and device is None and _is_kept(stations):
                return iter(
                    (Origin(Action.CREATED, node, where.file, name, None, None, None, stations, where),)
                )
            if bare in LIKE_FACTORIES and device is None:
                return iter(o for a in node.args[:1] for o in self._back(a, where, stations))
            if bare in FACTORIES or bare in HOST_FACTORIES or bare in LIKE_FACTORIES:
                host = bare in HOST_FACTORIES
                action = Action.FROM_NUMPY if bare in ("from_numpy", "frombuffer") else Action.CREATED
                explicit = device is not None and not host
                return iter(
                    (
                        Origin(
                            action,
                            node,
                            where.file,
                            name,
                            explicit,
                            literal_device(device) if explicit else "cpu",
                            device if explicit else None,
                            stations,
                            where,
                        ),
                    )
                )
            if bare in ("load", "jit.load"):
                chosen = next(
                    (k.value for k in node.keywords if k.arg == "map_location"),
                    node.args[1] if len(node.args) > 1 else None,
                )
                return iter(
                    (
                        Origin(
                            Action.LOADED,
                            node,
                            where.file,
                            name,
                            chosen is not None,
                            literal_device(chosen),
                            chosen,
                            stations,
                            where,
                        ),
                    )
                )
        if method in NEW_METHODS and isinstance(node.func, ast.Attribute) and not name:
            if device is None and _is_kept(stations):
                kept = Origin(
                    Action.CREATED, node, where.file, f"Tensor.{method}", None, None, None, stations, where
                )
                return iter((kept,))
            if device is None:
                return self._back(node.func.value, where, stations)
            return iter(
                (
                    Origin(
                        Action.CREATED,
                        node,
                        where.file,
                        f"Tensor.{method}",
                        True,
                        literal_device(device),
                        device,
                        stations,
                        where,
                    ),
                )
            )
        return None

    def _moved(
        self, node: ast.Call, subject: ast.expr, method: str, where: Where, stations: tuple[Station, ...]
    ) -> Iterator[Origin]:
        chosen = (
            node.args[0]
            if method == "to" and node.args
            else next((k.value for k in node.keywords if k.arg == "device"), None)
        )
        own = self.callee(node, where)
        if own is not None and not isinstance(own.node, ast.ClassDef):
            # A class of the program moves itself: what it leaves out is looked for behind it.
            station = Station("own-move", node, where.file, method, own, point=where.point, source=subject)
            yield from self._back(subject, where, (*stations, station))
            return
        device = {"cpu": "cpu", "cuda": "gpu", "xpu": "gpu", "mps": "gpu"}.get(method) or literal_device(
            chosen
        )
        if method == "to" and (chosen is None or is_dtype(chosen)):
            yield from self._back(subject, where, stations)
            return
        if self.stray == "cpu" and device == "gpu":
            return
        yield Origin(
            Action.MOVED, node, where.file, f"Tensor.{method}", True, device, chosen, stations, where
        )


def _is_kept(stations: tuple[Station, ...]) -> bool:
    """The value was stored for later: what it followed when it was made may have moved since."""
    return any(s.how == "attribute" for s in stations)


__all__ = ["MODULE", "MODULE_STATE", "MOVES", "Origin", "Station", "Tracer", "Where"]
