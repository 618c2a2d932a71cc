"""The example of each rule's page is reported by `check`, and what the page says to write instead is clean."""

import re

import pytest

from samedevice.rules import all_rules
from tests.virtual.diagnosing import diagnose

pytestmark = pytest.mark.torch

BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)

CHECKED = [name for name, rule in all_rules().items() if "check" in rule.engines]

#: their examples need several processes
DISTRIBUTED = {"collective-on-wrong-device"}

#: what their examples import beside torch
NEEDS = {"kernel-on-other-gpu": "triton"}


@pytest.mark.parametrize("name", [n for n in CHECKED if n not in DISTRIBUTED])
def test_the_example_is_reported_and_its_remedy_is_clean(name, tmp_path):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    example, remedy = BLOCK.findall(all_rules()[name].documentation)[:2]
    wrong, right = tmp_path / "example.py", tmp_path / "instead.py"
    wrong.write_text(example)
    right.write_text(remedy)

    assert [d.rule for d in diagnose(wrong, gpus=2)] == [name]
    assert diagnose(right, gpus=2) == []


@pytest.mark.parametrize("name", CHECKED)
def test_every_rule_of_check_teaches_its_lesson(name):
    rule = all_rules()[name]

    assert rule.lesson
    assert rule.summary.startswith("Checks for ")
