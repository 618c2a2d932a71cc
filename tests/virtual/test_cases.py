"""Whole programs with one mistake each: the rule, the line of the mistake and the line that raises."""

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.virtual.diagnosing import diagnose

pytestmark = pytest.mark.torch

CASES = sorted(p.parent for p in (Path(__file__).parents[1] / "cases").glob("*/expect.json"))


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_mistake_is_named_at_its_own_line_and_the_corrected_program_is_clean(case, tmp_path):
    expected = json.loads((case / "expect.json").read_text())

    found = diagnose(case / "bug.py", expected["gpus"])

    assert {d.rule for d in found} == {expected["rule"]}
    assert all(d.location.line in expected["culprit"] for d in found)
    assert all(d.raised is not None and d.raised.location.line in expected["crash"] for d in found)
    assert {Path(d.location.path).name for d in found} == {"bug.py"}
    assert diagnose(case / "fixed.py", expected["gpus"]) == []
