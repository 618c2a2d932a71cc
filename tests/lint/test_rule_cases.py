"""The Markdown cases of every rule, and the example pair of its documentation."""

import ast
import re
import sys
from pathlib import Path

import pytest

from samedevice.rules import all_rules

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))
from linted import fix, lint
from mdtest import Case, read_cases

FOLDER = Path(__file__).parents[1] / "rules"
CASES = [
    pytest.param(path.stem, case, id=f"{path.stem}: {case.title}")
    for path in sorted(FOLDER.glob("*.md"))
    for case in read_cases(path)
]
LINT_RULES = [
    r
    for r in all_rules().values()
    if "lint" in r.engines and r.name not in ("syntax-error", "unused-suppression")
]
PAIR = re.compile(r"## Example\n(?P<before>.*?)\nUse instead:\n(?P<after>.*?)(?=\n## |\Z)", re.DOTALL)
CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize(("rule", "case"), CASES)
def test_exactly_the_marked_lines_are_reported(rule: str, case: Case) -> None:
    found = {(d.location.path, d.location.line, d.rule, d.message) for d in lint(case.files)}
    expected = case.expected

    assert {f[:3] for f in found} == {e[:3] for e in expected}
    for path, line, name, text in expected:
        assert any(f[:3] == (path, line, name) and text in f[3] for f in found), (text, found)


@pytest.mark.parametrize(("rule", "case"), [p for p in CASES if p.values[1].fixed is not None])
def test_fixing_gives_the_fixed_block(rule: str, case: Case) -> None:
    assert fix(case.files["case.py"]) == case.fixed


@pytest.mark.parametrize("rule", LINT_RULES, ids=lambda rule: rule.name)
def test_the_documented_example_is_reported_and_its_remedy_is_not(rule) -> None:
    pair = PAIR.search(rule.documentation)
    assert pair is not None
    before, after = CODE.search(pair["before"]), CODE.search(pair["after"])
    assert before is not None
    assert after is not None

    if rule.name not in NOT_IN_THE_TEXT:
        assert rule.name in {d.rule for d in lint(before.group(1))}
    assert lint(after.group(1)) == []


#: rules whose documented example shows only when the program runs; their cases show what reading finds
NOT_IN_THE_TEXT: frozenset[str] = frozenset()


@pytest.mark.parametrize("rule", LINT_RULES, ids=lambda rule: rule.name)
def test_a_rule_has_cases_of_its_own(rule) -> None:
    path = FOLDER / f"{rule.name}.md"

    assert path.exists()
    assert any(rule.name in {e[2] for e in case.expected} for case in read_cases(path))


@pytest.mark.parametrize("rule", LINT_RULES, ids=lambda rule: rule.name)
def test_the_module_carries_the_rules_name(rule) -> None:
    assert type(rule).__module__ == "samedevice.rules." + rule.name.replace("-", "_")


def test_examples_parse() -> None:
    for rule in LINT_RULES:
        for block in CODE.findall(rule.documentation):
            ast.parse(block)
