"""`samedevice check`: run a program on virtual GPUs and report every device mistake."""

import argparse
import os
import pickle
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from types import FrameType
from typing import Any, NoReturn

from samedevice.cli import Parser
from samedevice.cli.audits import Audits, add_options
from samedevice.cli.ending import end_processes
from samedevice.cli.membership import Member, member_of
from samedevice.cli.output import check_writable, write_report
from samedevice.model.errors import UserError
from samedevice.model.outcome import Outcome
from samedevice.model.sizes import size_of
from samedevice.processes.watch import Ended
from samedevice.program import overlay
from samedevice.program.running import (
    Ending,
    Program,
    finish,
    prepare,
    program_from,
    run,
    show,
    without_own_frames,
)
from samedevice.report import FORMATS

DESCRIPTION = """\
Run a program on virtual GPUs: on the CPU, with CUDA's device rules. Every device
mismatch of the run is reported with the line where the mistake was made; the
program goes on after each one, so one run finds them all.
"""

EPILOG = """\
examples:
  samedevice check train.py --epochs 3
  samedevice check --gpus 2 --max-batches 2 -m mypkg.train --config small.yaml
  samedevice check --nproc-per-node 2 train.py      as torchrun would start it
  samedevice check --format sarif --output report.sarif train.py
  samedevice check --fix --unsafe-fixes train.py

Options of samedevice stand before the script, options of the program after it.
The program behaves as on a machine with N GPUs, and prints the numbers that it
prints on the CPU. The report goes to standard error; standard output is the
program's.

exit status: 0 nothing found, 1 problems found, 2 the program could not run or
failed for another reason (its own traceback is shown)
"""


class TimeUp(BaseException):
    """The time limit is reached; a BaseException, so that the program does not catch it."""


def build_parser() -> argparse.ArgumentParser:
    """The command's options; what follows the script belongs to the program."""
    parser = Parser(
        prog="samedevice check",
        usage="samedevice check [OPTIONS] SCRIPT [ARGS ...]\n       samedevice check [OPTIONS] -m MODULE [ARGS ...]",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--gpus",
        type=_positive,
        default=None,
        metavar="N",
        help="number of virtual GPUs (default: 1, one a process with --nproc-per-node)",
    )
    parser.add_argument(
        "--nproc-per-node",
        type=_positive,
        default=None,
        metavar="N",
        help="run N processes as torchrun does; one report tells what all of them found",
    )
    parser.add_argument(
        "--nnodes",
        type=_positive,
        default=None,
        metavar="N",
        help="with --nproc-per-node: so many nodes, all on this machine (default: 1)",
    )
    parser.add_argument(
        "--gpu-memory",
        type=_size,
        default=None,
        metavar="SIZE",
        help="memory of each GPU, as 24GB (default: 80GB)",
    )
    parser.add_argument(
        "--on-mismatch",
        choices=("report", "raise"),
        default="report",
        help="report: note it and go on (default); raise: raise PyTorch's exception as CUDA does",
    )
    parser.add_argument(
        "--max-batches",
        type=_positive,
        default=None,
        metavar="K",
        help="end each pass over a DataLoader after K batches, to reach evaluation and saving soon",
    )
    parser.add_argument(
        "--time-limit",
        type=_seconds,
        default=None,
        metavar="S",
        help="stop the program after S seconds and report",
    )
    parser.add_argument(
        "--format", choices=FORMATS, default="text", help="form of the report (default: text)"
    )
    parser.add_argument(
        "--output", default=None, metavar="FILE", help="write the report to FILE (`-`: standard output)"
    )
    add_options(parser)
    parser.add_argument(
        "--fix",
        action="store_true",
        help="edit the program, run it again, and keep what a run proves (several runs)",
    )
    parser.add_argument(
        "--unsafe-fixes",
        action="store_true",
        help="with --fix or --diff: edits that may change behaviour too",
    )
    parser.add_argument(
        "--diff",
        action="store_true",
        help="like --fix, but write nothing: print the changes as a unified diff",
    )
    parser.add_argument("--record", default=None, help=argparse.SUPPRESS)
    parser.add_argument("--plain", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--seeded", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--ranks", default=None, help=argparse.SUPPRESS)
    parser.add_argument("--no-progress", action="store_true", help="no progress lines on a terminal")
    parser.add_argument(
        "program", nargs=argparse.REMAINDER, metavar="SCRIPT [ARGS ...]", help=argparse.SUPPRESS
    )
    return parser


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"`{text}` is not a whole number above 0")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"`{text}` is not a number of seconds")
    return value


def _size(text: str) -> int:
    try:
        return size_of(text)
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def split_words(parser: argparse.ArgumentParser, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """samedevice's own words and the program's: the program starts at its script or at `-m`."""
    takes_value = {
        option
        for action in parser._actions
        if action.nargs is None and action.option_strings
        for option in action.option_strings
    }
    i = 0
    while i < len(words):
        word = words[i]
        if word == "--":
            return list(words[:i]), list(words[i + 1 :])
        if word in ("-m", "-") or not word.startswith("-"):
            break
        i += 2 if word in takes_value else 1
    return list(words[:i]), list(words[i:])


def main(words: Sequence[str]) -> int:
    """Run the command; returns the exit status."""
    parser = build_parser()
    own, rest = split_words(parser, words)
    options = parser.parse_args(own)
    program = program_from(rest)
    overlay.install()
    if options.fix or options.diff:
        if "TORCHELASTIC_RUN_ID" in os.environ:
            raise UserError("`--fix` starts runs of its own: use `samedevice check --nproc-per-node N --fix`")
        from samedevice.cli.fixing import fix

        return fix(program, options)
    if options.nproc_per_node is not None or options.nnodes is not None:
        from samedevice.cli.ranks import check_ranks

        return check_ranks(program, options)
    options.gpus = options.gpus or gpus_of_node()
    return run_plainly(program, options) if options.plain else check(program, options)


def gpus_of_node() -> int:
    """How many virtual GPUs there are unless somebody says: one for each process of a launcher."""
    text = os.environ.get("LOCAL_WORLD_SIZE", "1")
    return int(text) if text.isdigit() and int(text) else 1


def run_plainly(program: Program, options: argparse.Namespace) -> int:
    """Run the program without virtual GPUs, as long as it would run with them; for comparison."""
    prepared = prepare(program)
    _seed()
    with ExitStack() as limits:
        if options.max_batches is not None:
            from samedevice.virtual.loaders import at_most

            limits.enter_context(at_most(options.max_batches))
        limits.enter_context(_time_limit(options.time_limit))
        ending = run(prepared)
        finish(ending)
    if ending.exception is not None and not isinstance(ending.exception, TimeUp):
        show(without_own_frames(ending.exception))
    return ending.status


def check(program: Program, options: argparse.Namespace) -> int:
    """Run the program on virtual GPUs, write the report, return the exit status.

    Raises:
        UserError: the program does not exist or is not Python, or torch is missing.
    """
    from samedevice.virtual import virtual_gpus

    started = time.monotonic()
    folder = os.getcwd()
    output = options.output if options.output in (None, "-") else os.path.abspath(options.output)
    if output not in (None, "-"):
        check_writable(output)  # before a long run, not after it
    member = member_of(options.ranks)
    if member is not None and member.rank:
        options.audit, options.audit_at, options.html = False, None, None  # one rank shows them
    audits = Audits(options)
    prepared = prepare(program)
    if options.record is not None or options.seeded:
        _seed()
    diagnoser = _diagnoser(options)
    owner = os.getpid()
    with virtual_gpus(
        options.gpus,
        options.on_mismatch,
        gpu_memory=options.gpu_memory,
        diagnoser=diagnoser,
        max_batches=options.max_batches,
        folder=None if member is None else member.folder,
    ) as engine:
        if member is not None:
            member.attach(engine.children.reporter)
        with (
            _progress(engine, diagnoser, started, options),
            audits.watching(),
            _stopping(options.time_limit, member, engine),
        ):
            ending = run(prepared)
            ended_at = time.time()
            if os.getpid() != owner:
                _leave_copy(engine, ending)
            try:
                finish(ending)
            except (KeyboardInterrupt, TimeUp, Ended) as error:
                ending = Ending(error, 130 if isinstance(error, KeyboardInterrupt) else 1)
        by_mistake = _died_of_mismatch(ending.exception) or (
            isinstance(ending.exception, Exception) and diagnoser.died(ending.exception, engine)
        )
        findings = engine.children.findings()
        others = engine.children.records()
        by_mistake = by_mistake or any(record.refused for record in others)
        notes = list(dict.fromkeys([*engine.session.notes, *(n for r in others for n in r.notes)]))
        inventory = audits.finish(prepared.module, ending)
    hint = _gpu_hint(ending.exception, options.gpus)
    if ending.exception is not None and not isinstance(ending.exception, (TimeUp, Ended)):
        show(without_own_frames(ending.exception))
    if hint:
        print(f"samedevice: {hint}", file=sys.stderr)
    how = _how_it_ended(ending, options.time_limit)
    if member is not None:
        member.gpus = options.gpus
        member.report = lambda summary: _report(summary.outcome, options, output, folder, started)
        status = 128 + signal.SIGTERM if isinstance(ending.exception, Ended) else ending.status
        return member.leave(how, status, by_mistake=by_mistake, at=ended_at)
    outcome = Outcome(
        command="check",
        diagnostics=tuple(diagnostic for diagnostic, _ in findings),
        virtual_gpus=options.gpus,
        program=how,
        notes=tuple(notes),
        seconds=time.monotonic() - started,
    )
    audits.write_page(outcome, None, inventory, folder)
    if options.record is not None:
        with open(options.record, "wb") as stream:
            pickle.dump((outcome, tuple(fixes for _, fixes in findings)), stream)
    else:
        write_report(outcome, options.format, output, root=folder)
    if isinstance(ending.exception, KeyboardInterrupt):
        return 130
    failed = ending.status != 0 and not by_mistake and not isinstance(ending.exception, TimeUp)
    if failed:
        return 2
    return 1 if findings else 0


def _report(
    outcome: Outcome, options: argparse.Namespace, output: str | None, root: str, started: float
) -> None:
    """The report of all ranks, by the last one to end."""
    outcome = replace(outcome, seconds=time.monotonic() - started)
    write_report(outcome, options.format, output, root=root)


def _leave_copy(engine: Any, ending: Ending) -> NoReturn:
    """The program forked, and this is the copy: it ends as the program would, its parent reports."""
    try:
        finish(ending)
        if engine.children.reporter is not None:
            engine.children.reporter.write()
        if ending.exception is not None and not isinstance(ending.exception, TimeUp):
            show(without_own_frames(ending.exception))
        sys.stderr.flush()
    finally:
        os._exit(ending.status)


def _seed() -> None:
    """Runs that are compared with each other start from the same numbers; a program may seed anew."""
    import random
    from importlib.util import find_spec

    random.seed(0)
    if find_spec("torch") is not None:
        import torch

        torch.manual_seed(0)
    if find_spec("numpy") is not None:
        import numpy

        numpy.random.seed(0)


def _diagnoser(options: argparse.Namespace) -> Any:
    from samedevice.virtual.diagnose import Diagnoser

    return Diagnoser()


def _how_it_ended(ending: Ending, limit: float | None) -> str:
    error = ending.exception
    if error is None:
        return "finished"
    if isinstance(error, TimeUp):
        return f"stopped after {limit:g} s"
    if isinstance(error, Ended):
        return "ended by SIGTERM"
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, SystemExit):
        return "finished" if ending.status == 0 else f"exited with status {ending.status}"
    text = str(error).split("\n")[0]
    return f"raised {type(error).__name__}: {text}" if text else f"raised {type(error).__name__}"


def _died_of_mismatch(error: BaseException | None) -> bool:
    """The exception, or one it was raised from, is a refusal of the device rules."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if getattr(error, "samedevice_refusal", False):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def _gpu_hint(error: BaseException | None, gpus: int) -> str | None:
    if error is None:
        return None
    text = str(error)
    if "invalid device ordinal" in text or "torch.cuda.device_count() is" in text:
        count = "1 virtual GPU" if gpus == 1 else f"{gpus} virtual GPUs"
        stored = re.search(r"on CUDA device (\d+)", text)  # a checkpoint's
        asked = getattr(error, "samedevice_asked", gpus if stored is None else int(stored[1]))
        which = f"cuda:{asked}" if stored is not None or hasattr(error, "samedevice_asked") else "a GPU"
        return (
            f"the program asks for {which}, which is not there; it ran with {count}, try `--gpus {asked + 1}`"
        )
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"the program needs the package `{error.name}`, which is not installed in this environment"
    return None


def _stopping(limit: float | None, member: Member | None, engine: Any) -> AbstractContextManager[None]:
    """What stops the program: the time limit, and for a rank its launcher too."""
    if limit is not None:
        engine.children.tell_where_they_stand()

    def time_up() -> TimeUp:
        # Before the program unwinds: a `with` that it is in may wait for them.
        end_processes(engine)
        return TimeUp()

    if member is None:
        return _time_limit(limit, time_up)
    return member.watching(limit, time_up)


@contextmanager
def _time_limit(seconds: float | None, time_up: Callable[[], BaseException] = TimeUp) -> Iterator[None]:
    if seconds is None:
        yield
        return
    if not hasattr(signal, "setitimer"):
        raise UserError("`--time-limit` needs a system with interval timers (not Windows)")

    def up(number: int, frame: FrameType | None) -> None:
        raise time_up()

    before = signal.signal(signal.SIGALRM, up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _progress(engine: Any, diagnoser: Any, started: float, options: argparse.Namespace) -> Iterator[None]:
    """A line now and then on a terminal; whole lines, so that the program's own output stays intact."""
    if options.no_progress or not sys.stderr.isatty():
        yield
        return
    from samedevice.cli.progress import ProgressLines

    def line() -> str:
        batches, problems = engine.session.batches, diagnoser.problems
        return (
            f"samedevice: {time.monotonic() - started:.0f} s, {batches} batch{'' if batches == 1 else 'es'}, "
            f"{problems} problem{'' if problems == 1 else 's'} so far"
        )

    with ProgressLines(line, sys.stderr):
        yield
