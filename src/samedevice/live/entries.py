"""How data came into the program's functions: the loop, the batch, what was moved beside it and what was not."""

import ast

from samedevice.live.origins import Origin, Station
from samedevice.live.points import Point
from samedevice.live.sources import Sources
from samedevice.model.scene import Action, Entry, Step
from samedevice.program import bindings as b
from samedevice.program.discards import unused_moves_of
from samedevice.program.frames import location_of, scope_of, statement_of, text_of


class EntryReader:
    """Reads entries from origins."""

    sources: Sources

    def discarded(self, node: ast.expr, point: Point, origin: Origin, wanted: str) -> Step | None:
        """`x.to(device)` above, whose result nobody took."""
        places: list[tuple[str, ast.AST, str]] = []
        if isinstance(node, ast.Name) and point.statement is not None:
            places.append((node.id, point.statement, point.file))
        for station in origin.stations:
            if station.how == "argument" and isinstance(station.node, ast.Name):
                places.append((station.node.id, station.node, station.file))
        for name, at, file in places:
            scope = scope_of(at)
            line = getattr(at, "lineno", 0)
            if scope is None:
                continue
            for call in unused_moves_of(scope, name, line):
                if isinstance(call.func, ast.Attribute) and call.func.attr != "cpu":
                    return Step(
                        Action.DISCARDED_MOVE,
                        "Tensor.to",
                        location_of(call, file),
                        wanted,
                        True,
                        text_of(call, file),
                    )
        return None

    # -- how data came into the program's functions ------------------------------------------------------

    def entry(self, origin: Origin, wanted: str) -> Entry | None:
        """The outermost name that the data has, seen from the failing call."""
        binder = next(
            (s for s in reversed(origin.stations) if s.how in ("for", "unpack", "name") and s.name), None
        )
        if binder is None or binder.use is None:
            return None
        loader = origin.function == "DataLoader"
        loop = next((s for s in reversed(origin.stations) if s.how == "for"), None)
        how = binder.how
        if how == "name":
            inner = binder.source
            how = (
                "item"
                if isinstance(inner, (ast.Subscript, ast.Attribute))
                else "call"
                if isinstance(inner, ast.Call)
                else "assign"
            )
        if loop is not None and binder is not loop and how == "assign":
            how = "unpack"
        named = (
            binder
            if binder is not loop or len([s for s in origin.stations if s.how in ("name", "unpack")]) == 0
            else loop
        )
        use_statement = statement_of(named.use) if named.use is not None else None
        if named.use is None or use_statement is None:
            return None
        used_node: ast.AST = named.use
        call = getattr(used_node, "parent", None)
        used = Step(
            Action.RECEIVED,
            "used",
            location_of(use_statement, named.file),
            expression=_short(use_statement, named.file),
        )
        del call
        bound = Step(
            Action.ASSIGNED,
            how,
            location_of(statement_of(named.node) or named.node, named.file),
            expression=_short(statement_of(named.node) or named.node, named.file),
        )
        source = text_of(named.source, named.file) if named.source is not None else None
        shown = text_of(named.use, named.file) if isinstance(named.use, ast.expr) else named.name
        return Entry(
            shown,
            used,
            bound,
            how,
            source,
            loader,
            self._moved_beside(named, origin),
            getattr(b.method_of(named.node), "name", None),
        )

    def _moved_beside(self, station: Station, origin: Origin) -> tuple[str, ...]:
        """What came by the same loop or unpacking, or out of the same batch, and was moved in the function."""
        together: set[str] = set()
        targets = [getattr(station.node, "target", None), *getattr(station.node, "targets", [])]
        for target in targets:
            together |= (
                {n.id for n in ast.walk(target) if isinstance(n, ast.Name)} if target is not None else set()
            )
        together.discard(station.name)
        for other in origin.stations:
            if (
                other.how == "for"
                and other is not station
                and getattr(other.node, "target", None) is not None
            ):
                target = getattr(other.node, "target", None)
                together |= (
                    {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
                    if target is not None
                    else set()
                )
        scope = scope_of(station.node)
        moved = []
        for node in ast.walk(scope) if scope is not None else ():
            if isinstance(node, ast.Call):
                subject = (
                    node.func.value
                    if isinstance(node.func, ast.Attribute) and node.func.attr in ("to", "cuda")
                    else None
                )
                if subject is None and any(k.arg == "device" for k in node.keywords) and node.args:
                    subject = node.args[0]
                if subject is None and self._moves_its_argument(node, station.file):
                    subject = node.args[0]
                root = subject
                while isinstance(root, (ast.Subscript, ast.Attribute)):
                    root = root.value
                if (
                    isinstance(root, ast.Name)
                    and root.id in together
                    and not isinstance(statement_of(node), ast.Expr)
                ):
                    moved.append(text_of(subject, station.file) if subject is not None else root.id)
        return tuple(dict.fromkeys(moved))

    def _moves_its_argument(self, node: ast.Call, file: str) -> bool:
        """A helper of the program like `as_tensor(array, policy)`, which names a device for its argument."""
        if not node.args:
            return False
        found = self.sources.definition(node.func, file)
        if found is None or not isinstance(found.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return False
        return any(
            isinstance(n, ast.Call)
            and (
                any(k.arg == "device" for k in n.keywords)
                or (isinstance(n.func, ast.Attribute) and n.func.attr in ("to", "cuda"))
            )
            for n in ast.walk(found.node)
        )


def _short(statement: ast.AST, file: str) -> str:
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        return f"for {text_of(statement.target, file)} in {text_of(statement.iter, file)}"
    if hasattr(statement, "body"):
        return ast.unparse(statement).partition("\n")[0]
    return text_of(statement, file)
