"""Calls on every placement of their operands, against what PyTorch's own CUDA build does with them."""

from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")

import samedevice  # noqa: E402
from conformance import replay  # noqa: E402

pytestmark = pytest.mark.torch

RECORDED = replay.recorded()


@pytest.fixture(scope="module", autouse=True)
def two_gpus() -> Iterator[None]:
    # Which convolution the CPU would take depends on its threads; the calls were recorded with two.
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    with samedevice.virtual_gpus(2):
        yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("example", replay.examples(), ids=lambda example: example.text)
def test_is_judged_as_by_cuda(example: replay.Example) -> None:
    """The same verdict, the same sentence, the results in the same place."""
    here, there = {}, RECORDED[example.text]
    for placement, outcome in there.items():
        found = example.run(placement)
        here[placement] = "accepted" if outcome == "accepted" and ":" not in found else found

    assert here == there
