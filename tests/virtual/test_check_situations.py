"""Situations of several lines, against what PyTorch's own CUDA build makes of them."""

import warnings
from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")

import samedevice  # noqa: E402
from conformance import situations  # noqa: E402

pytestmark = pytest.mark.torch

#: known to be otherwise here
MISSED = {
    # Every check on the host lets them pass; the CPU has no kernel, and what CUDA's computes only a GPU can tell.
    "distances of two types": "accepted by CUDA's kernel only",
    "grids of another type than the image": "accepted by CUDA's kernel only",
    "a batch norm in half precision with a float input": "accepted by CUDA's kernel only",
    # The CPU computes it, and the devices are right: each product would have to be asked for its types.
    "integer matrices": "refused by CUDA's kernel only",
}


ALL = situations.all_situations()


def compare(situation: situations.Situation, found: str) -> None:
    # NumPy's own exception has another class since NumPy 2.5.
    found = found.replace("BufferError: Unsupported device in", "RuntimeError: Unsupported device in")
    if situation.title in MISSED:
        assert found != situation.expected, "no longer missed: take it out of the list"
    else:
        assert found == situation.expected


@pytest.mark.parametrize("situation", ALL, ids=lambda situation: situation.title)
def test_comes_to_what_cuda_makes_of_it(situation: situations.Situation) -> None:
    """The same devices, or the same exception in the same words; each on a machine of its own."""
    with warnings.catch_warnings(), samedevice.virtual_gpus(2):
        warnings.simplefilter("ignore")
        found = situation.run()

    compare(situation, found)


def test_reports_no_mistake_where_cuda_sees_none() -> None:
    for situation in ALL:
        if "Error: " in situation.expected:
            continue
        with warnings.catch_warnings(), samedevice.virtual_gpus(2, "report") as engine:
            warnings.simplefilter("ignore")
            situation.run()

        assert engine.diagnostics() == [], situation.title
        assert not [note for note in engine.session.notes if "could not be explained" in note]


@pytest.fixture(scope="module")
def exact_gpus() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with samedevice.virtual_gpus(2, exact=True):
            yield


@pytest.mark.parametrize("situation", ALL, ids=lambda situation: situation.title)
def test_comes_to_the_same_when_every_operation_is_judged(
    situation: situations.Situation, exact_gpus: None
) -> None:
    """The reference, with all situations one after the other on one machine."""
    compare(situation, situation.run())
