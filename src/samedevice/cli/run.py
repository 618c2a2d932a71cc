"""`samedevice run`: run a program on the real hardware, at full speed; explain it if it dies."""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from samedevice.cli import Parser
from samedevice.model.errors import UserError

DESCRIPTION = """\
Run a program as `python` does, on the hardware that is there and at full speed. When
it dies of a device error, the cause is explained below its own traceback: which tensor
is on the wrong device, where it comes from, how to write it right.
"""

EPILOG = """\
examples:
  samedevice run train.py --epochs 3
  samedevice run -m mypkg.train --config small.yaml
  torchrun --nproc-per-node 2 -m samedevice run train.py
  samedevice run --trace train.py      slower; knows where every tensor was made

Options of samedevice stand before the script, options of the program after it.
Output, traceback and exit status are the program's own; the explanation goes to
standard error. The same without this command: `samedevice.install()` in the program,
or SAMEDEVICE=1 in the environment.
"""


def build_parser() -> argparse.ArgumentParser:
    """The command's options; what follows the script belongs to the program."""
    parser = Parser(
        prog="samedevice run",
        usage="samedevice run [OPTIONS] SCRIPT [ARGS ...]\n       samedevice run [OPTIONS] -m MODULE [ARGS ...]",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--trace", action="store_true", help="record where tensors are made and moved (slower)"
    )
    parser.add_argument(
        "--lang", choices=("en", "de"), default=None, help="language of the explanation (default: from LANG)"
    )
    parser.add_argument(
        "--format",
        choices=("text", "json", "sarif", "github", "concise"),
        default="text",
        help="form of the report that --output gets (default: text)",
    )
    parser.add_argument(
        "--output", default=None, metavar="FILE", help="write a report to FILE when the program has ended"
    )
    parser.add_argument(
        "program", nargs=argparse.REMAINDER, metavar="SCRIPT [ARGS ...]", help=argparse.SUPPRESS
    )
    return parser


_WITH_VALUE = ("--lang", "--format", "--output")


def _split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """samedevice's own words and the program's, which start at its script or at `-m`."""
    i = 0
    while i < len(words):
        word = words[i]
        if word == "--":
            return list(words[:i]), list(words[i + 1 :])
        if word in ("-m", "-") or not word.startswith("-"):
            break
        i += 2 if word in _WITH_VALUE else 1
    return list(words[:i]), list(words[i:])


def main(words: Sequence[str]) -> int:
    """Run the command; the exit status is the program's."""
    own, rest = _split(words)
    options = build_parser().parse_args(own)
    from samedevice import crash
    from samedevice.program.running import prepare, program_from

    program = program_from(rest)
    if options.output:
        _must_be_writable(options.output)
    prepared = prepare(program)
    found: list[Any] = []
    if options.output:
        options.output = os.path.abspath(options.output)
        crash.listeners.append(found.append)
    crash.install(language=options.lang, traced=options.trace)
    # Other processes of the program, and the ranks that it starts, explain themselves as well.
    os.environ.setdefault("SAMEDEVICE", "1")
    if options.trace:
        from samedevice.live.births import recording

        with recording():
            status = _run(prepared, options, found)
    else:
        status = _run(prepared, options, found)
    return status


def _run(prepared: Any, options: argparse.Namespace, found: list[Any]) -> int:
    from samedevice import crash
    from samedevice.program.running import run, show, without_own_frames

    ending = run(prepared)
    error = ending.exception
    if error is not None and not isinstance(error, SystemExit):
        without_own_frames(error)
        show(error)
        # The program may have put a hook of its own in the place of ours.
        crash.explain_to(error)
    if options.output:
        _report(options, found, ending)
    if isinstance(error, SystemExit):
        raise error
    if isinstance(error, KeyboardInterrupt):
        _die_of_interrupt(ending)
    return ending.status


def _die_of_interrupt(ending: Any) -> None:
    """End as `python` does after Ctrl-C: of the signal, so that a shell's loop ends, too."""
    import signal

    from samedevice.program.running import finish

    finish(ending)
    if os.name == "posix":
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)


def _must_be_writable(path: str) -> None:
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise UserError(f"there is no folder `{folder}` for `--output {path}`")


def _report(options: argparse.Namespace, found: Sequence[Any], ending: Any) -> None:
    from samedevice.cli.output import write_file
    from samedevice.live.answer import catalogue_diagnostic
    from samedevice.live.sentences import language_from
    from samedevice.model.outcome import Outcome
    from samedevice.program.files import START
    from samedevice.report import render

    language = language_from(options.lang, dict(os.environ))
    diagnostics = [a.diagnostic or catalogue_diagnostic(a.error, "<traceback>", language) for a in found]
    error = ending.exception
    if error is None or (isinstance(error, SystemExit) and ending.status == 0):
        how = "finished"
    elif isinstance(error, SystemExit):
        how = f"exited with status {ending.status}"
    else:
        first = (str(error).splitlines() or [""])[0]
        how = f"raised {type(error).__name__}: {first}" if first else f"raised {type(error).__name__}"
    outcome = Outcome(command="run", diagnostics=tuple(diagnostics), program=how)
    try:
        write_file(options.output, render(outcome, options.format, root=START))
    except UserError as problem:
        print(f"samedevice: {problem}", file=sys.stderr)
