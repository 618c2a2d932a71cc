"""Scenes of refusals that are not about the operands of the user's line: loaders, wrappers, generators, backward."""

import ast
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from samedevice.live.module_facts import ModuleReader
from samedevice.live.origins import Origin, Tracer, Where
from samedevice.live.points import Point
from samedevice.live.sources import Found
from samedevice.model.scene import Action, Holder, Kind, Operand, Scene, Step
from samedevice.program import bindings as b
from samedevice.program.frames import location_of, statement_of, text_of
from samedevice.program.values import evaluate_in

if TYPE_CHECKING:
    from samedevice.live.scenes import CrashScene


def special_scene(crash: "CrashScene", point: Point) -> Scene | None:
    """The scene of a refusal that another object than the user's line brought about, None otherwise."""
    kind = crash.match.family.kind
    if kind is Kind.PIN:
        return _pin(crash, point)
    if kind is Kind.GENERATOR:
        return _generator(crash, point)
    if kind is Kind.DATA_PARALLEL:
        return _wrapper(crash, point)
    if kind is Kind.GRADIENT and "function" in crash.match.fields:
        return _gradient(crash, point)
    if kind is Kind.META:
        return _meta(crash, point)
    if kind is Kind.LEAF:
        return _leaf(crash, point)
    if kind in (Kind.LOAD, Kind.FORK, Kind.COLLECTIVE):
        return crash.frame_of(kind, point)
    if in_optimizer(crash, point):
        return _optimizer(crash, point)
    return None


def statement_step(node: ast.AST, file: str, action: Action, function: str) -> Step:
    """A statement of the sources as a step."""
    statement = statement_of(node) or node
    text = text_of(statement, file) if not hasattr(statement, "body") else None
    return Step(
        action,
        function,
        location_of(statement, file),
        expression=text,
        function_name=getattr(b.method_of(node), "name", "<module>"),
    )


# -- loaders -------------------------------------------------------------------------------------------


def _loader(crash: "CrashScene", point: Point) -> Step | None:
    """Where the DataLoader that the statement runs over was made."""
    statement = point.statement
    iterable: ast.expr | None = None
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        iterable = statement.iter
    elif isinstance(point.node, ast.Call) and point.node.args:
        iterable = point.node.args[0]
    elif isinstance(point.node, ast.expr):
        iterable = next((c.iter for c in ast.walk(point.node) if isinstance(c, ast.comprehension)), None)
    if iterable is None:
        return None
    where = Where(point.file, point.line, point)
    for part in ast.walk(iterable):
        if not isinstance(part, (ast.Name, ast.Attribute, ast.Call)):
            continue
        for value, inner in crash.tracer.definitions(part, where):
            if (
                isinstance(value, ast.Call)
                and (
                    value.func.attr
                    if isinstance(value.func, ast.Attribute)
                    else getattr(value.func, "id", "")
                )
                == "DataLoader"
            ):
                return statement_step(value, inner.file, Action.CREATED, "DataLoader")
    return None


def _pin(crash: "CrashScene", point: Point) -> Scene:
    loader = _loader(crash, point)
    operand = Operand("", "cuda:0", expression=None)
    scene = crash.frame_of(Kind.PIN, point, (operand,), 0, "cpu")
    scene.extra.update({"in_loader": True, "loader_made": loader} if loader is not None else {})
    return scene


def _generator(crash: "CrashScene", point: Point) -> Scene:
    scene = crash.frame_of(Kind.GENERATOR, point)
    wanted = crash.match.fields.get("d2", "cuda").partition(":")[0]
    extra = scene.extra
    extra["generator_wanted"] = wanted
    where = Where(point.file, point.line, point)
    if isinstance(point.node, ast.Call):
        for keyword in point.node.keywords:
            if keyword.arg == "generator":
                extra["generator_name"] = text_of(keyword.value, point.file)
                for value, inner in crash.tracer.definitions(keyword.value, where):
                    if isinstance(value, ast.Call):
                        extra["generator_made"] = statement_step(
                            value, inner.file, Action.CREATED, "torch.Generator"
                        )
                        break
    loader = _loader(crash, point)
    settings = crash.sources.calls("set_default_device", "set_default_tensor_type")
    if settings and (loader is not None or "generator_made" not in extra):
        extra["default_device"] = wanted
        extra["default_set"] = statement_step(
            settings[0].node, settings[0].file, Action.ASSIGNED, "torch.set_default_device"
        )
    if loader is not None:
        extra["in_loader"] = True
        extra["loader_made"] = loader
    return scene


def _wrapper(crash: "CrashScene", point: Point) -> Scene:
    scene = crash.frame_of(Kind.DATA_PARALLEL, point)
    where = Where(point.file, point.line, point)
    node = point.node
    if not isinstance(node, ast.Call):
        return scene
    for value, inner in [(node, where), *crash.tracer.definitions(node.func, where)]:
        name = (
            value.func.attr if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) else ""
        )
        if isinstance(value, ast.Call) and name.endswith("DataParallel") and value.args:
            scene.extra["wrapped_at"] = statement_step(value, inner.file, Action.CREATED, name)
            scene.extra["module_fact"] = _wrapped(crash, value, inner)
            break
    return scene


def _wrapped(crash: "CrashScene", call: ast.Call, where: Where) -> Any:
    """What is known of the module that is wrapped: as if it were called on that line."""
    reader = ModuleReader(crash.tracer, "cuda:0")
    outer = where.point
    point = Point(
        where.file,
        call.lineno,
        "",
        call,
        statement_of(call),
        2,
        outer.frame if outer is not None else None,
        None,
    )
    return reader.fact(call.args[0], point)


# -- backward ------------------------------------------------------------------------------------------


def _gradient(crash: "CrashScene", point: Point) -> Scene | None:
    """The engine names a `Function` of the program: what its `backward` returns is out of place."""
    name = crash.match.fields["function"].removesuffix("Backward").removesuffix("Backward0")
    fields = crash.match.fields
    stray, wanted = fields.get("d1", "cpu"), fields.get("d2", "cuda:0")
    for file in crash.sources.files:
        for definition in crash.sources.classes(file):
            if definition.name != name:
                continue
            method = crash.sources.method(Found(definition, file), "backward")
            if method is None or not isinstance(method.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            origins = _returned(crash, method, stray)
            scene_operand = Operand("", stray, expression=None)
            if origins:
                scene_operand = Operand("", stray, expression=None, provenance=(crash.step(origins[0]),))
            scene = crash.frame_of(Kind.GRADIENT, point, (scene_operand,), 0, wanted)
            scene.extra["function"] = crash.match.fields["function"]
            return scene
    return None


def _returned(crash: "CrashScene", method: Found, stray: str) -> list[Origin]:
    tracer = Tracer(crash.sources, stray, crash.device_of)
    found: list[Origin] = []
    for node in ast.walk(method.node):
        if isinstance(node, ast.Return) and node.value is not None:
            found += tracer.trace(node.value, Where(method.file, node.lineno))
    return sorted(found, key=tracer.score)


# -- meta ----------------------------------------------------------------------------------------------


def _meta(crash: "CrashScene", point: Point) -> Scene:
    scene = crash.frame_of(Kind.META, point, (Operand("", "meta"),), 0, None)
    for file in crash.sources.files:
        from samedevice.program.frames import tree_of

        tree = tree_of(file)
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, (ast.With, ast.AsyncWith)):
                text = " ".join(ast.unparse(i.context_expr) for i in node.items)
                if "meta" in text or "empty_weights" in text:
                    scene.extra["meta_block"] = Step(
                        Action.CREATED, text, location_of(node, file), "meta", expression=f"with {text}"
                    )
    loads = [c for c in crash.sources.calls("load_state_dict") if isinstance(c.node, ast.Call)]
    named = _subject(point)
    for call in loads:
        assert isinstance(call.node, ast.Call)
        if isinstance(call.node.func, ast.Attribute) and (
            named is None or ast.unparse(call.node.func.value) == named
        ):
            scene.extra["state_loaded"] = statement_step(
                call.node, call.file, Action.ASSIGNED, "load_state_dict"
            )
    return scene


def _subject(point: Point) -> str | None:
    node = point.node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return ast.unparse(node.func.value)
    return None


# -- parameters ----------------------------------------------------------------------------------------


def _leaf(crash: "CrashScene", point: Point) -> Scene:
    """What a move left of a parameter: among the optimizer's arguments the one that a move made."""
    where = Where(point.file, point.line, point)
    wanted = "cuda:0"
    tracer = Tracer(crash.sources, wanted, lambda value: wanted)
    for part in ast.walk(point.node) if point.node is not None else ():
        if isinstance(part, (ast.Name, ast.Attribute)) and isinstance(getattr(part, "ctx", None), ast.Load):
            for origin in tracer.trace(part, where):
                if origin.action is Action.MOVED:
                    step = replace(crash.step(origin), device=wanted)
                    operand = Operand(
                        "",
                        wanted,
                        text_of(part, point.file),
                        provenance=(step,),
                        placed=step,
                        requires_grad=True,
                    )
                    return crash.frame_of(Kind.LEAF, point, (operand,), 0, wanted)
    return crash.frame_of(Kind.LEAF, point)


# -- optimizers ----------------------------------------------------------------------------------------


def in_optimizer(crash: "CrashScene", point: Point) -> bool:
    """The call failed inside `optimizer.step()`."""
    after = crash.points[list(crash.points).index(point) + 1 :] if point in crash.points else []
    if any("torch/optim" in p.file.replace("\\", "/") for p in after):
        return True
    return "fused_" in crash.match.fields.get("method", "")


def _optimizer(crash: "CrashScene", point: Point) -> Scene | None:
    node = point.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    where = Where(point.file, point.line, point)
    made: Step | None = None
    made_call: tuple[ast.Call, Where] | None = None
    for value, inner in crash.tracer.definitions(node.func.value, where):
        name = crash.sources.qualified(value.func, inner.file) if isinstance(value, ast.Call) else None
        if name and name.startswith("torch.optim."):
            assert isinstance(value, ast.Call)
            made = statement_step(value, inner.file, Action.CREATED, name)
            made_call = (value, inner)
            break
    wanted = crash.wanted(())
    kept = _state_by_hand(crash)
    operand = Operand(
        "", crash.stray, expression=None, holder=Holder.OPTIMIZER_STATE, path=_state_path(crash, node), kept=kept,
        provenance=(kept or made or Step(Action.CREATED, "state", point.location, crash.stray),),
    )  # fmt: skip
    scene = crash.frame_of(Kind.OPERANDS, point, (operand,), 0, wanted)
    if made is not None and made_call is not None:
        scene.extra["optimizer_made"] = made
        moved = _moved_after(crash, made_call, point, wanted)
        if moved is not None:
            scene.extra["state_moved"] = moved
    return scene


def _state_by_hand(crash: "CrashScene") -> Step | None:
    for file in crash.sources.files:
        from samedevice.program.frames import tree_of

        tree = tree_of(file)
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Subscript) and any(
                        isinstance(n, ast.Attribute) and n.attr == "state" for n in ast.walk(target)
                    ):
                        return statement_step(node, file, Action.CACHED, "kept")
    return None


def _state_path(crash: "CrashScene", node: ast.Call) -> str:
    assert isinstance(node.func, ast.Attribute)
    del crash
    return f"{ast.unparse(node.func.value)}.state"


def _moved_after(crash: "CrashScene", made: tuple[ast.Call, Where], point: Point, wanted: str) -> Step | None:
    """The move of the model that came after the optimizer had allocated its state."""
    call, where = made
    method = b.method_of(call)
    scopes: list[tuple[ast.AST, str, int]] = []
    if method is not None and method is not b.method_of(point.statement or call):
        # Made in a helper; seen from the failing function it is the call of that helper that counts.
        for other in crash.sources.calls(method.name):
            holder = b.method_of(other.node)
            if holder is not None:
                scopes.append((holder, other.file, getattr(other.node, "lineno", 0)))
    if method is not None:
        scopes.append((method, where.file, call.lineno))
    else:
        from samedevice.program.frames import tree_of

        tree = tree_of(where.file)
        if tree is not None:
            scopes.append((tree, where.file, call.lineno))
    for scope, file, line in scopes:
        for node in ast.walk(scope):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in ("to", "cuda")
                and node.lineno > line
                and isinstance(statement_of(node), ast.Expr)
            ):
                return Step(
                    Action.MOVED,
                    "Module.to",
                    location_of(node, file),
                    wanted,
                    True,
                    text_of(node, file),
                    getattr(b.method_of(node), "name", "<module>"),
                )
    return None


__all__ = ["evaluate_in", "in_optimizer", "special_scene", "statement_step"]
