"""`samedevice diff`: two profiles side by side."""

import argparse
import json
from collections.abc import Sequence
from typing import Any

from samedevice.cli import Parser
from samedevice.model.errors import UserError

DESCRIPTION = """\
Show what a change saved: two profiles side by side, written by
`samedevice profile --format json --output FILE`.
"""


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = Parser(
        prog="samedevice diff", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", metavar="BEFORE.json")
    parser.add_argument("after", metavar="AFTER.json")
    return parser


def main(words: Sequence[str]) -> int:
    """Run the command; 0 always, unless a file is no profile."""
    from samedevice.report.traffic import difference

    options = build_parser().parse_args(words)
    print(difference(_profile(options.before), _profile(options.after)), end="")
    return 0


def _profile(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
    except OSError as error:
        raise UserError(f"cannot read `{path}`: {error.strerror or error}") from None
    except ValueError as error:
        raise UserError(f"`{path}` is not JSON: {error}") from None
    found = data.get("profile") if isinstance(data, dict) else None
    if not isinstance(found, dict) or not {"totals", "loops", "traffic"} <= found.keys():
        raise UserError(
            f"`{path}` is not a profile; write one with `samedevice profile --format json --output {path} SCRIPT`"
        )
    return found
