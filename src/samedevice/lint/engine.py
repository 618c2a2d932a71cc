"""Analyses one file: runs its module abstractly, then what no call of the program reached."""

import ast
from collections.abc import Callable

from samedevice.lint.engine_api import FileResult, Project, SourceFile
from samedevice.lint.run import Exhausted, Frame, Run
from samedevice.lint.state import Trail
from samedevice.lint.values import Const, Deferred, Module


def run_module(run: Run, module: Module) -> None:
    """Run a module's top level; its globals are the locals of that frame."""
    from samedevice.lint.flow import exec_block

    frame = Frame(module, None, (), None, 0)
    frame.locals = module.env
    main = module.file is run.file
    module.env.setdefault("__name__", Const("__main__" if main else module.name))
    module.env.setdefault("__file__", Const(module.file.path))
    try:
        tree = module.file.parsed()
    except (SyntaxError, ValueError, RecursionError):
        return
    run.frames.append(frame)
    default, trail = run.default, run.trail
    try:
        if run.loads and main:
            exec_block(run, tree.body, frame)
        else:
            if not main:
                # A branch that imports first is not the only one that has imported.
                run.trail = Trail()
            for statement in tree.body:
                if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    # Most of what a file defines is not asked for.
                    module.env[statement.name] = Deferred(statement, module)
                elif exec_block(run, [statement], frame):
                    break
    finally:
        run.frames.pop()
        if not main:
            run.default, run.trail = default, trail


def analyse(file: SourceFile, project: Project, selected: Callable[[str], bool]) -> FileResult:
    """The diagnostics of `file`."""
    file.parsed()
    run = Run(project, file)
    module = Module(file, file.module_name or "__main__")
    module.state = "ready"
    run.modules[module.name] = module
    run.loads = is_script(file.parsed())
    from samedevice.lint import entries

    if not run.loads and not entries.trigger_lines(file.text):
        return FileResult([])
    try:
        run_module(run, module)
    except (Exhausted, RecursionError):
        run.frames.clear()
        run.active.clear()
    run.loads = False
    entries.look_at_the_rest(run, module)
    if not run.meetings:
        return FileResult([], frozenset(run.reads - {file.path}))
    from samedevice.lint.report import diagnostics

    return FileResult(diagnostics(run, selected), frozenset(run.reads - {file.path}))


#: calls at the top of a file that make no program of it
HARMLESS = ("logger", "logging", "warnings", "sys", "os", "register", "setup", "torch", "np", "_", "pytest")


def is_table(value: ast.expr) -> bool:
    """Whether an expression is a long literal: data, and too long to be searched for calls."""
    parts = value.keys if isinstance(value, ast.Dict) else getattr(value, "elts", ())
    return len(parts) > 50


def is_script(tree: ast.Module) -> bool:
    """Whether a file does something when it is run, so that its imports are worth running too."""
    assigned: set[str] = set()
    for statement in tree.body:
        if isinstance(statement, ast.For | ast.While | ast.With):
            return True
        if isinstance(statement, ast.If) and "__name__" in {
            n.id for n in ast.walk(statement.test) if isinstance(n, ast.Name)
        }:
            return True
        value = getattr(statement, "value", None)
        if isinstance(statement, ast.Expr) and isinstance(value, ast.Call):
            first = value.func
            while isinstance(first, ast.Attribute | ast.Call):
                first = first.value if isinstance(first, ast.Attribute) else first.func
            if isinstance(first, ast.Name) and not first.id.startswith(HARMLESS):
                return True
        if isinstance(statement, ast.Assign | ast.AnnAssign) and value is not None and not is_table(value):
            for node in ast.walk(value):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Name)
                    and node.func.id in assigned
                ):
                    return True
            for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
                assigned.update(n.id for n in ast.walk(target) if isinstance(n, ast.Name))
    return False
