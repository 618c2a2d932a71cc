"""`samedevice rule`: the documentation of a rule, or the list of all."""

import argparse
import sys
import textwrap
from collections.abc import Sequence
from itertools import groupby

from samedevice.cli import Parser
from samedevice.cli.output import wants_color, width_of
from samedevice.rules import Rule, all_rules, find_rule

EPILOG = """\
examples:
  samedevice rule                        all rules, group by group
  samedevice rule unregistered-tensor    what it means and how to write it right
"""


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = Parser(
        prog="samedevice rule",
        description="Show the documentation of a rule; without a name, list all rules.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="name of the rule, as reports show it in brackets"
    )
    return parser


def main(words: Sequence[str]) -> int:
    """Run the command; returns the exit status.

    Raises:
        UserError: there is no such rule.
    """
    name = build_parser().parse_args(list(words)).name
    if name is None:
        sys.stdout.write(catalogue(list(all_rules().values()), width_of(sys.stdout)))
        return 0
    text = page(find_rule(name))
    if wants_color(sys.stdout):
        _show(text)
    else:
        sys.stdout.write(text)
    return 0


def page(rule: Rule) -> str:
    """The page of one rule as Markdown."""
    lesson = f"\n> {rule.lesson}\n" if rule.lesson else ""
    return f"# {rule.name}\n\n{facts(rule)}\n{lesson}\n{rule.documentation.strip()}\n"


def facts(rule: Rule) -> str:
    """What kind of rule it is, on one line."""
    engines = f"found by {', '.join(rule.engines)}"
    known = [rule.severity, rule.category, rule.group, engines, f"since {rule.since}"]
    return " · ".join([*known, *(["preview"] if rule.preview else [])])


def catalogue(rules: Sequence[Rule], width: int) -> str:
    """All rules with their first sentences, group by group."""
    longest = max(len(rule.name) for rule in rules)
    lines: list[str] = []
    for group, members in groupby(sorted(rules, key=lambda r: (r.group, r.name)), key=lambda r: r.group):
        lines += [group, ""]
        for rule in members:
            lines += textwrap.wrap(
                rule.summary,
                width,
                initial_indent=f"  {rule.name:<{longest}}  ",
                subsequent_indent=" " * (longest + 4),
                break_on_hyphens=False,
            )
        lines.append("")
    return "\n".join([*lines, "`samedevice rule NAME` shows a rule's page", ""])


def _show(text: str) -> None:
    """Markdown with colours; a terminal only."""
    from rich.console import Console
    from rich.markdown import Markdown

    Console(width=width_of(sys.stdout), force_terminal=True).print(Markdown(text, code_theme="ansi_dark"))
