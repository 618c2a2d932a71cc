"""Calls on every placement of their operands, against what PyTorch's own CUDA build does with them."""

from collections.abc import Iterator

import pytest

pytest.importorskip("torch")

from conformance import replay

import samedevice

pytestmark = pytest.mark.torch

RECORDED = replay.recorded()


@pytest.fixture(scope="module", autouse=True)
def two_gpus() -> Iterator[None]:
    with samedevice.virtual_gpus(2):
        yield


@pytest.mark.parametrize("example", replay.examples(), ids=lambda example: example.text)
def test_is_judged_as_by_cuda(example: replay.Example) -> None:
    """The same verdict, the same sentence, the results in the same place."""
    here, there = {}, RECORDED[example.text]
    for placement, outcome in there.items():
        found = example.run(placement)
        here[placement] = "accepted" if outcome == "accepted" and ":" not in found else found

    assert here == there
