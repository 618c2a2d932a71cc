"""The command line: one module a command, imported when it is chosen."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from samedevice._version import __version__
from samedevice.model.errors import UserError

#: command -> (module, one line for `--help`)
COMMANDS = {
    "check": ("samedevice.cli.check", "run a program on virtual GPUs and report every device mistake"),
    "lint": ("samedevice.cli.lint", "find device mistakes by reading the code, without running it"),
    "run": ("samedevice.cli.run", "run a program on the real hardware; explain it if it dies"),
    "explain": ("samedevice.cli.explain", "explain a pasted error message, traceback or log"),
    "profile": ("samedevice.cli.profile", "run a program and tell what crosses the bus, by line and step"),
    "diff": ("samedevice.cli.diff", "compare two profiles: what a change saved"),
    "rule": ("samedevice.cli.rule", "show the documentation of a rule"),
}

EPILOG = """\
examples:
  samedevice check train.py --epochs 3     run train.py on a virtual GPU, no GPU needed
  samedevice check --gpus 2 -m mypkg.train run a module on two virtual GPUs
  samedevice rule unregistered-tensor      what a rule means and how to write it right

exit status: 0 nothing found, 1 problems found, 2 could not run
"""


class Parser(argparse.ArgumentParser):
    """Argument parser whose errors are `UserError`s with a hint at `--help`."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}\nsee `{self.prog} --help`")


def build_parser() -> argparse.ArgumentParser:
    """The top-level parser; a command's own options are added when it is chosen."""
    parser = Parser(
        prog="samedevice",
        description="The device sanitizer for PyTorch: finds, explains and fixes device-placement mistakes.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"samedevice {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for name, (_, line) in COMMANDS.items():
        commands.add_parser(name, help=line, add_help=False)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status (0 clean, 1 problems, 2 could not run)."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        if words and words[0] in COMMANDS:
            status = import_module(COMMANDS[words[0]][0]).main(words[1:])
        else:
            parser = build_parser()
            parser.parse_args(words)
            parser.print_help()
            status = 2
        sys.stdout.flush()
    except UserError as error:
        print(f"samedevice: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader went away (`| head`); the interpreter must not complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 2
    except KeyboardInterrupt:
        print("samedevice: interrupted", file=sys.stderr)
        return 130
    return int(status)
