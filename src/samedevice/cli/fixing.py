"""`check --fix` and `--diff` as commands: the runs, the edits, and what is told of them."""

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType

from samedevice.cli.audits import Audits
from samedevice.cli.lint_fixing import counted
from samedevice.cli.output import check_writable, write_report
from samedevice.cli.places import on_disk
from samedevice.cli.repair import Repair, Repaired, attempt
from samedevice.cli.trials import Files, Runner, Unwritten
from samedevice.lint.fixer import applicable
from samedevice.model.diagnostic import Diagnostic
from samedevice.model.errors import UserError
from samedevice.model.fix import Fix
from samedevice.model.outcome import Outcome
from samedevice.program.running import Program
from samedevice.source.rewriting import unified_diff


def fix(program: Program, options: argparse.Namespace) -> int:
    """Run, edit, run again; write the report of the last state; returns the exit status.

    Raises:
        UserError: a file cannot be written, or the program comes from standard input.
    """
    started = time.monotonic()
    folder = os.getcwd()
    if program.target == "-" and not program.is_module:
        raise UserError("`--fix` needs a file: a program from standard input cannot be edited")
    if options.audit or options.audit_at is not None:
        raise UserError("`--audit` looks at one run and `--fix` makes several; give one of them")
    audits = Audits(options)
    output = options.output if options.output in (None, "-") else os.path.abspath(options.output)
    if output not in (None, "-"):
        check_writable(output)
    runner = Runner(words_for(program, options), to_stderr=options.diff or output == "-")
    finished = False
    with files_for(options, folder) as files:
        runner.environment = files.environment
        try:
            with ending_by_signal():
                first = runner.check(show=True)
                if first.outcome is None or first.status not in (0, 1):
                    if first.outcome is not None:
                        write_report(first.outcome, options.format, output, root=folder)
                    return first.status if first.status in (0, 1, 130) else 2
                repair = Repair(runner, files, unsafe=options.unsafe_fixes, say=Say(options.no_progress))
                repaired = repair.repair(first)
                changed = files.changed()
                finished = True
        except KeyboardInterrupt:
            print("samedevice: interrupted; the files are as they were", file=sys.stderr)
            return 130
        finally:
            if not finished:
                files.write({})
    outcome = replace(
        outcome_of(repaired, files, first.outcome, options, runner.count),
        seconds=time.monotonic() - started,
    )
    if options.diff:
        outcome = on_disk(outcome, {path: (files.originals[path][0], new) for path, new in changed.items()})
        show_diff(files, changed)
    audits.write_page(outcome, None, None, folder)
    write_report(outcome, options.format, output, root=folder)
    return 1 if outcome.diagnostics or (options.diff and changed) else 0


@contextmanager
def files_for(options: argparse.Namespace, root: str) -> Iterator[Files]:
    """The program's files; with `--diff` they stay as they are, and a folder of ours holds the edited ones."""
    if not options.diff:
        yield Files(root)
        return
    with tempfile.TemporaryDirectory(prefix="samedevice-") as folder:
        yield Unwritten(root, folder)


def words_for(program: Program, options: argparse.Namespace) -> list[str]:
    """The command line of each run."""
    words = ["--on-mismatch", options.on_mismatch]
    for name in ("gpus", "nproc_per_node", "nnodes"):
        if (number := getattr(options, name, None)) is not None:
            words += ["--" + name.replace("_", "-"), str(number)]
    if options.gpu_memory is not None:
        words += ["--gpu-memory", str(options.gpu_memory)]
    if options.max_batches is not None:
        words += ["--max-batches", str(options.max_batches)]
    if options.time_limit is not None:
        words += ["--time-limit", str(options.time_limit)]
    if options.no_progress:
        words.append("--no-progress")
    return [*words, *(["-m"] if program.is_module else ["--"]), program.target, *program.args]


def outcome_of(
    repaired: Repaired, files: Files, first: Outcome, options: argparse.Namespace, runs: int
) -> Outcome:
    """The last run's outcome with what was fixed and what was not."""
    last = repaired.trial.outcome
    assert last is not None
    notes = list(last.notes)
    would = "would fix" if options.diff else "fixed"
    paths = {edit.path for one in repaired.made for edit in one.fix.edits}
    if repaired.made:
        notes.append(
            f"{would} {counted(len(repaired.made), 'problem')} in {counted(len(paths), 'file')}, "
            f"proven by {counted(runs, 'run')} on virtual GPUs"
        )
    seen = set()
    for problem, fix, reason in repaired.taken_back:
        line = f"taken back, {problem.rule}, {problem.location.path}:{problem.location.line}: {fix.title}: {reason}"
        if line not in seen:
            seen.add(line)
            notes.append(line)
    notes += repaired.notes
    more = 0
    for problem, fixes in zip(last.diagnostics, repaired.trial.fixes, strict=True):
        possible = [f for f in fixes if applicable(f, unsafe=True)]
        outside = [f for f in possible if not all(files.editable(e.path) for e in f.edits)]
        obstacle = files.obstacle(problem.location.path)
        if obstacle is not None:
            notes += [obstacle] if obstacle not in notes else []
        elif possible and not outside and not options.unsafe_fixes:
            more += not any(applicable(f, unsafe=False) for f in possible)
    if more:
        notes.append(
            f"--unsafe-fixes would try to fix {counted(more, 'more problem' if repaired.made else 'problem')}"
        )
    fixed = tuple(
        replace(one.diagnostic, fix=one.fix, notes=(*one.diagnostic.notes, f"proven by run {one.run}"))
        for one in repaired.made
    )
    left = tuple(
        replace(problem, fix=untried(problem, fixes, repaired, files))
        for problem, fixes in zip(last.diagnostics, repaired.trial.fixes, strict=True)
    )
    return replace(last, diagnostics=left, notes=tuple(notes), fixed=fixed, written=not options.diff)


def untried(problem: Diagnostic, fixes: Sequence[Fix], repaired: Repaired, files: Files) -> Fix | None:
    """The edit that is still worth offering for a problem that is left."""
    for fix in fixes:
        if attempt(problem, fix) not in repaired.tried and all(files.editable(e.path) for e in fix.edits):
            return fix
    return None


def show_diff(files: Files, changed: dict[str, bytes]) -> None:
    """The changes on standard output."""
    sys.stdout.flush()
    out = sys.stdout.buffer
    for path, new in sorted(changed.items()):
        old, _ = files.originals[path]
        out.write(unified_diff(path, old, new).encode("utf-8", "surrogateescape"))
    out.flush()


class Say:
    """A line on the terminal for each run."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet or not sys.stderr.isatty()

    def __call__(self, text: str) -> None:
        if not self.quiet:
            print(f"samedevice: {text}", file=sys.stderr, flush=True)


@contextmanager
def ending_by_signal() -> Iterator[None]:
    """A request to end is an interruption, so that the files are put back."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    numbers = [getattr(signal, n) for n in ("SIGTERM", "SIGHUP") if hasattr(signal, n)]
    before: Sequence[object] = []
    try:
        before = [signal.signal(n, interrupt) for n in numbers]
    except ValueError:
        numbers = []  # not the main thread
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=False):
            signal.signal(number, handler)  # type: ignore[arg-type]
