"""Write the documentation pages of the rules from their docstrings; `--check` only compares."""

import argparse
import sys
from itertools import groupby
from pathlib import Path

from samedevice.cli.rule import facts
from samedevice.rules import Rule, all_rules

DOCS = Path(__file__).parents[1] / "docs"

#: what every page must have, in this order
HEADINGS = ("## Why is this bad?", "## Example", "## Fix safety")

INDEX_HEAD = """\
# Rules

<!-- written by scripts/rule_docs.py; edit the docstrings of src/samedevice/rules -->

Each rule is one kind of mistake.
`samedevice rule NAME` prints the same page in the terminal, `samedevice rule` lists all.
"""


def page(rule: Rule) -> str:
    """The page of one rule."""
    head, _, body = rule.documentation.partition("\n\n")
    missing = [heading for heading in HEADINGS if heading not in body]
    if missing:
        raise SystemExit(f"rule {rule.name}: its docstring lacks {', '.join(missing)}")
    lesson = f'\n!!! tip "The rule behind it"\n    {rule.lesson}\n' if rule.lesson else ""
    return f"""\
# {rule.name}

<!-- written by scripts/rule_docs.py; edit src/samedevice/rules/{rule.name.replace("-", "_")}.py -->

<small>{facts(rule)}</small>

{head}
{lesson}
{body.strip()}
"""


def index(rules: list[Rule]) -> str:
    """The page that lists all rules, group by group."""
    parts = [INDEX_HEAD]
    for group, members in groupby(
        sorted(rules, key=lambda rule: (rule.group, rule.name)), key=lambda rule: rule.group
    ):
        parts.append(f"\n## {group[:1].upper()}{group[1:]}\n\n| rule | what it finds |\n| --- | --- |\n")
        parts += [
            f"| [{rule.name}]({rule.name}.md) | {rule.summary.replace('|', chr(92) + '|')} |\n"
            for rule in members
        ]
    return "".join(parts)


def pages() -> dict[Path, str]:
    """Every generated file with its text."""
    rules = list(all_rules().values())
    return {DOCS / "rules" / "index.md": index(rules)} | {
        DOCS / "rules" / f"{rule.name}.md": page(rule) for rule in rules
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a page is out of step")
    args = parser.parse_args()
    wanted = pages()
    there = set((DOCS / "rules").glob("*.md"))
    stale = sorted(
        [
            path
            for path, text in wanted.items()
            if path not in there or path.read_text(encoding="utf-8") != text
        ]
        + list(there - set(wanted))
    )
    if args.check:
        for path in stale:
            print(
                f"{path.relative_to(DOCS.parent)} is out of step; run scripts/rule_docs.py", file=sys.stderr
            )
        return 1 if stale else 0
    for path in stale:
        if path in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path], encoding="utf-8")
        else:
            path.unlink()
    print(f"{len(wanted)} pages, {len(stale)} changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
