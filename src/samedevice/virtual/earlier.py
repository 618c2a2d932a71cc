"""The call that used a module before it moved, read from the function that moves it."""

import ast
import dis
import sys
from types import FunctionType
from typing import Final

from samedevice.model.scene import Action, Step
from samedevice.program.files import PACKAGE, kind_of, package_of
from samedevice.program.frames import parent_of, statement_of
from samedevice.program.origins import SELF_METHODS
from samedevice.source.edits import block_of
from samedevice.virtual.provenance import ModuleMoved
from samedevice.virtual.steps import spot_of_place, step_of_expression

SETTING_UP: Final = ("__init__", "__setstate__", "reset_parameters", "reset", "build", "setup")


def package_of_class(kind: type) -> str | None:
    """The installed package (not torch itself) that defines a class."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    if not isinstance(file, str) or kind_of(file) != PACKAGE:
        return None
    return package_of(file)


def fills_in_use(kind: type, attribute: str | None) -> bool:
    """Whether a method of the class that no constructor needs sets the attribute, as a cache is filled."""
    for base in kind.__mro__:
        for name, function in vars(base).items():
            if name in SETTING_UP or not isinstance(function, FunctionType):
                continue
            if any(
                step.opname == "STORE_ATTR" and step.argval == attribute
                for step in dis.get_instructions(function)
            ):
                return True
    return False


def used_before(move: ModuleMoved) -> Step | None:
    """The last call above a module's move, in the same block, that calls the module or is given it."""
    spot = spot_of_place(move.place)
    node = None if spot is None else spot.node
    if spot is None or not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return None
    name = node.func.value
    statement = statement_of(node)
    if not isinstance(name, ast.Name) or statement is None:
        return None
    for earlier in reversed(_above(statement)):
        for call in ast.walk(earlier):
            if isinstance(call, ast.Call) and _uses(call, name.id):
                return step_of_expression(call, spot.filename, Action.RECEIVED, "call")
        if any(isinstance(n, ast.Name) and n.id == name.id and _is_store(n) for n in ast.walk(earlier)):
            return None
    return None


def _above(statement: ast.stmt) -> list[ast.stmt]:
    """The statements of the same block before this one."""
    block = block_of(statement, parent_of(statement))
    return block[: block.index(statement)] if block else []


def _uses(call: ast.Call, name: str) -> bool:
    """`model(x)`, `model.predict(x)`, `prepare(model, x)`; a method that only sets it up is no use."""
    func: ast.expr = call.func
    if isinstance(func, ast.Attribute):
        if func.attr in SELF_METHODS or func.attr in ("parameters", "state_dict", "load_state_dict", "apply"):
            return False
        func = func.value
    given = [*call.args, *(k.value for k in call.keywords)]
    return any(isinstance(n, ast.Name) and n.id == name for n in (func, *given))


def _is_store(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)
