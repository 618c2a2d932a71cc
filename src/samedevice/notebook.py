"""The notebook extension: `%load_ext samedevice`.

Device errors are explained under their tracebacks, as rich output with a text fallback;
`%%samedevice check` runs a cell on virtual GPUs.
"""

import argparse
import linecache
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import Any

from samedevice.model.errors import UserError

_loaded: dict[int, Any] = {}

USAGE = """\
%%samedevice check [--gpus N] [--on-mismatch report|raise] [--max-batches K]
    run the cell on virtual GPUs: CUDA's device rules, on the CPU
%samedevice explain [MESSAGE]
    explain a device error; the last one of this notebook without a message
"""


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext samedevice`: explain device errors under their tracebacks, register the magics."""
    if id(shell) in _loaded:
        return
    original = shell.showtraceback

    def showtraceback(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        explain_last(shell, args[0] if args else kwargs.get("exc_tuple"))
        return result

    shell.showtraceback = showtraceback
    shell.register_magic_function(lambda line, cell=None: magic(shell, line, cell), "line_cell", "samedevice")
    _loaded[id(shell)] = original


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext samedevice`: everything is as it was."""
    if _loaded.pop(id(shell), None) is None:
        return
    # The wrapper is an attribute of the instance; the class's own method comes back.
    vars(shell).pop("showtraceback", None)
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("samedevice", None)


def explain_last(shell: Any, exc_tuple: Any = None) -> bool:
    """Show the explanation of the exception at hand under its traceback; says whether there was one.

    Never raises: a fault of ours is one line.
    """
    try:
        error = exc_tuple[1] if exc_tuple else sys.exc_info()[1]
        if error is None or "torch" not in sys.modules or not isinstance(error, Exception):
            return False
        from samedevice.live.postmortem import explain_exception

        found = explain_exception(error)
        if found is None:
            return False
        from samedevice.live.sentences import language_from
        from samedevice.report.crash import crash_lines

        language = language_from(None, dict(os.environ))
        cells = Cells(shell)
        # `samedevice run --trace` is no advice for a notebook.
        lines = crash_lines(cells.named(found), width=100, language=language, read=cells.read, traced=True)
        show(lines)
    except Exception as fault:
        print(
            f"samedevice: this error could not be explained ({type(fault).__name__}: {fault})",
            file=sys.stderr,
        )
        return False
    return True


def show(lines: Sequence[Any]) -> None:
    """Display styled lines: HTML where the front end can, text elsewhere."""
    from IPython.display import display

    from samedevice.report.html_lines import html_of
    from samedevice.report.layout import plain

    display({"text/html": html_of(lines), "text/plain": plain(lines)}, raw=True)


class Cells:
    """The cells of a notebook: their names, as tracebacks show them, and their sources."""

    def __init__(self, shell: Any) -> None:
        self._format: Callable[[str], Any] = getattr(shell.compile, "format_code_name", lambda name: None)
        self._files: dict[str, str] = {}

    def name(self, path: str) -> str:
        """`In[5]` for a cell's file; other paths as they are."""
        found = self._format(path) or self._format(os.path.abspath(path))
        if not found:
            return path
        shown = str(found[1])
        self._files[shown] = path
        return shown

    def read(self, path: str, cell: int | None) -> Sequence[str] | None:
        """The source lines of a cell or file."""
        del cell
        file = self._files.get(path, path)
        lines = linecache.getlines(file) or linecache.getlines(os.path.abspath(file))
        return [line.rstrip("\n") for line in lines] or None

    def named(self, found: Any) -> Any:
        """The post mortem with cells called as the notebook calls them."""
        from dataclasses import replace

        from samedevice.model.relabel import relabelled

        if found.diagnostic is None:
            return found
        return replace(found, diagnostic=relabelled(found.diagnostic, self.name))


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise UserError(f"{message}\n\n{USAGE}")


def magic(shell: Any, line: str, cell: str | None = None) -> None:
    """`%samedevice …` and `%%samedevice …`."""
    words = shlex.split(line)
    command = words[0] if words else ""
    try:
        if command == "check" and cell is not None:
            check_cell(shell, words[1:], cell)
        elif command == "explain":
            explain(shell, " ".join(words[1:]) or (cell or ""))
        else:
            print(USAGE)
    except UserError as error:
        print(f"samedevice: {error}", file=sys.stderr)


def check_cell(shell: Any, words: Sequence[str], cell: str) -> None:
    """Run the cell on virtual GPUs and show what was found.

    Raises:
        UserError: the options make no sense.
    """
    parser = _Parser(prog="%%samedevice check", add_help=False)
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--on-mismatch", choices=("report", "raise"), default="report")
    parser.add_argument("--max-batches", type=int, default=None)
    options = parser.parse_args(list(words))
    from samedevice.model.outcome import Outcome
    from samedevice.model.relabel import relabelled
    from samedevice.report.text import report_lines
    from samedevice.virtual import virtual_gpus
    from samedevice.virtual.diagnose import Diagnoser

    diagnoser = Diagnoser()
    with virtual_gpus(
        options.gpus, options.on_mismatch, diagnoser=diagnoser, max_batches=options.max_batches
    ) as engine:
        result = shell.run_cell(cell, store_history=False)
        diagnostics = diagnoser.diagnostics()
        notes = tuple(engine.session.notes)
    cells = Cells(shell)
    error = result.error_in_exec or result.error_before_exec
    outcome = Outcome(
        command="check",
        diagnostics=tuple(relabelled(d, cells.name) for d in diagnostics),
        virtual_gpus=options.gpus,
        program="finished"
        if error is None
        else f"raised {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}",
        notes=notes,
    )
    show(report_lines(outcome, width=100, read=cells.read))


def explain(shell: Any, message: str) -> None:
    """Explain a message, or the last error of the notebook."""
    if not message:
        last = getattr(sys, "last_value", None)
        if last is None or not explain_last(shell, (type(last), last, last.__traceback__)):
            print("samedevice: the last error of this notebook is no device error")
        return
    from samedevice.live.search import find_errors
    from samedevice.live.sentences import language_from, say
    from samedevice.report.explanation import explanation_lines

    language = language_from(None, dict(os.environ))
    errors = find_errors(message)
    if not errors:
        print(say("nothing").filled(where=say("meant").of(language)).of(language))
    for error in errors:
        show(explanation_lines(error, language, width=100))
