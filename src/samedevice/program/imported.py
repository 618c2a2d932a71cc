"""Which of the user's modules the code that runs has imported, directly or through others."""

import ast
import importlib.util
import sys
from collections.abc import Iterable
from types import FrameType, ModuleType

from samedevice.program.files import USER, kind_of
from samedevice.program.frames import tree_of


def imported_modules(frames: Iterable[FrameType]) -> dict[str, ModuleType]:
    """The user's modules by name: those whose code is in `frames`, and what they import.

    A process may hold other modules of the user's that have nothing to do with the program, such as the
    other test modules of a test run.
    """
    found: dict[str, ModuleType] = {}
    waiting = [str(frame.f_globals.get("__name__")) for frame in frames]
    while waiting:
        name = waiting.pop()
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        if module is None or name in found or not isinstance(file, str) or kind_of(file) != USER:
            continue
        found[name] = module
        tree = tree_of(file)
        if tree is not None:
            waiting += _imports(tree, getattr(module, "__package__", None) or "")
    return found


def _imports(tree: ast.AST, package: str) -> list[str]:
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            try:
                base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            except (ImportError, ValueError):
                continue  # a file that is run as a script has no package
            names += [f"{base}.{alias.name}" for alias in node.names]
    # A package is imported before what is in it.
    return [name for whole in names for name in _and_packages(whole)]


def _and_packages(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts) + 1)]
