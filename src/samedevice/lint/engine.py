"""Analyses one file: runs its module abstractly, then what no call of the program reached."""

import ast
from collections.abc import Callable

from samedevice.lint.engine_api import FileResult, Project, SourceFile
from samedevice.lint.run import Exhausted, Frame, Run
from samedevice.lint.values import Const, Module


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
    default = run.default
    try:
        exec_block(run, tree.body, frame)
    finally:
        run.frames.pop()
        if not main:
            run.default = default


def analyse(file: SourceFile, project: Project, selected: Callable[[str], bool]) -> FileResult:
    """The diagnostics of `file`."""
    file.parsed()
    run = Run(project, file)
    module = Module(file, file.module_name or "__main__")
    module.state = "ready"
    run.modules[module.name] = module
    try:
        run_module(run, module)
    except (Exhausted, RecursionError):
        run.frames.clear()
        run.active.clear()
    from samedevice.lint import entries

    entries.look_at_the_rest(run, module)
    if not run.meetings:
        return FileResult([], frozenset(run.reads - {file.path}))
    from samedevice.lint.report import diagnostics

    return FileResult(diagnostics(run, selected), frozenset(run.reads - {file.path}))


def parse_positions(tree: ast.Module) -> list[ast.stmt]:
    """The top-level statements of a file."""
    return tree.body
