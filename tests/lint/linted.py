"""Linting and fixing of sources that are given as text."""

import ast

from samedevice.lint.engine_api import Project, SourceFile, analyse_file, lint_files, merge
from samedevice.model.diagnostic import Diagnostic
from samedevice.source.rewriting import apply_edits


def module_of(path: str) -> str:
    name = path.removesuffix(".py").replace("/", ".")
    return name.removesuffix(".__init__")


def lint(files: dict[str, str] | str) -> list[Diagnostic]:
    """What is reported for files that may import each other."""
    named = {"case.py": files} if isinstance(files, str) else files
    return lint_files([SourceFile(path, text, None, module_of(path)) for path, text in named.items()])


def fix(text: str, path: str = "case.py", rounds: int = 10) -> str:
    """`text` with all fixes applied until nothing changes."""
    for _ in range(rounds):
        file = SourceFile(path, text, None, module_of(path))
        found = merge([analyse_file(file, Project([file])).diagnostics])
        chosen = next((d.fix for d in found if d.fix is not None and d.fix.edits), None)
        if chosen is None:
            return text
        changed = apply_edits(text, [e for e in chosen.edits if e.path == path])
        ast.parse(changed)
        assert changed != text
        text = changed
    raise AssertionError("the fixes do not settle")
