"""The fast tier reports what the exact tier reports: on whole programs, and on every recorded call."""

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

import samedevice
from conformance import replay
from tests.virtual.diagnosing import diagnose

pytestmark = pytest.mark.torch

TESTS = Path(__file__).parents[1]
CASES = sorted(p.parent for p in (TESTS / "cases").glob("*/expect.json"))
#: all but those that a launcher starts in several processes
EXAMPLES = [p for p in sorted((TESTS.parent / "examples").glob("*.py")) if "LOCAL_RANK" not in p.read_text()]
PROGRAMS = [
    (case / name, json.loads((case / "expect.json").read_text())["gpus"])
    for case in CASES
    for name in ("bug.py", "fixed.py")
]
PROGRAMS += [(script, 1) for script in EXAMPLES]


def told(script: Path, gpus: int, exact: bool) -> list[tuple[object, ...]]:
    """What is said of a program, without the counts: a fast run may meet a mistake once where an exact one does twice."""
    return [
        (d.rule, d.location, d.message, d.raised and (d.raised.location, d.raised.message))
        for d in diagnose(script, gpus, exact=exact)
    ]


@pytest.mark.parametrize(
    ("script", "gpus"),
    PROGRAMS,
    ids=lambda value: f"{value.parent.name}-{value.stem}" if isinstance(value, Path) else "",
)
def test_both_tiers_tell_the_same_of_a_program(script: Path, gpus: int) -> None:
    assert told(script, gpus, exact=False) == told(script, gpus, exact=True)


def test_both_tiers_judge_every_recorded_call_alike() -> None:
    placements = replay.recorded()

    def outcomes(exact: bool) -> dict[tuple[str, str], str]:
        with samedevice.virtual_gpus(2, exact=exact):
            return {
                (example.text, placement): example.run(placement)
                for example in replay.examples()
                for placement in placements[example.text]
            }

    fast, exact = outcomes(exact=False), outcomes(exact=True)

    assert {key: (fast[key], exact[key]) for key in fast if fast[key] != exact[key]} == {}
