"""Every planted cost is found at its line, nothing is said of the corrected twins, fixes are right."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")

from profile_programs import HEAD, PROGRAMS
from profile_running import found, profiled

import samedevice
from samedevice.profile.findings import diagnostics
from samedevice.source.rewriting import apply_edits

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True, scope="module")
def gpus() -> Iterator[None]:
    with samedevice.virtual_gpus(1):
        yield


def planted(source: str) -> list[tuple[str, int]]:
    return [
        (line.partition("# here: ")[2], number)
        for number, line in enumerate(source.splitlines(), 1)
        if "# here: " in line
    ]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_planted_cost_is_found_at_its_line(name: str, tmp_path: Path) -> None:
    source = HEAD + PROGRAMS[name][0]

    assert found(profiled(tmp_path, source)) == planted(source)


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_is_said_of_the_twin(name: str, tmp_path: Path) -> None:
    assert found(profiled(tmp_path, HEAD + PROGRAMS[name][1])) == []


FIXED = [
    "the loss read in every step",
    "a hidden state made on the CPU",
    "large batches out of pageable memory",
    "non_blocking without pinned memory",
    "accuracy read in every evaluation batch",
]


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_has_a_fix_is_clean_after_it(name: str, tmp_path: Path) -> None:
    source = HEAD + PROGRAMS[name][0]
    (diagnostic,) = diagnostics(profiled(tmp_path, source).by_caller)
    assert (diagnostic.fix is not None) == (name in FIXED)
    if diagnostic.fix is None:
        return

    fixed = apply_edits(source, diagnostic.fix.edits)

    assert found(profiled(tmp_path, fixed)) == []
    assert fixed.count("#") == source.count("#"), "comments are kept"


def test_a_fix_reads_as_a_person_writes_it(tmp_path: Path) -> None:
    source = HEAD + PROGRAMS["large batches out of pageable memory"][0]
    (diagnostic,) = diagnostics(profiled(tmp_path, source).by_caller)
    assert diagnostic.fix is not None

    fixed = apply_edits(source, diagnostic.fix.edits)

    assert "batch_size=8, pin_memory=True)  # here" in fixed
    assert "x = x.to(device, non_blocking=True)\n" in fixed
