"""The example of each page of the rules of cost is reported, and what it says to write instead is clean."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")

from profile_running import found, profiled

import samedevice
from samedevice.rules import all_rules

pytestmark = pytest.mark.torch

BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
RULES = [name for name, rule in all_rules().items() if "profile" in rule.engines]


@pytest.fixture(autouse=True, scope="module")
def gpus() -> Iterator[None]:
    with samedevice.virtual_gpus(1):
        yield


@pytest.mark.parametrize("name", RULES)
def test_the_example_is_reported_and_its_remedy_is_clean(name: str, tmp_path: Path) -> None:
    example, remedy = BLOCK.findall(all_rules()[name].documentation)

    assert [rule for rule, _ in found(profiled(tmp_path, example))] == [name]
    assert found(profiled(tmp_path, remedy)) == []


def test_there_are_five_and_each_teaches_its_lesson() -> None:
    assert RULES == [
        "create-then-move", "pageable-copy", "sync-in-loop", "transfer-in-loop", "unpinned-non-blocking"
    ]  # fmt: skip
    assert all(all_rules()[name].lesson and all_rules()[name].category == "performance" for name in RULES)
