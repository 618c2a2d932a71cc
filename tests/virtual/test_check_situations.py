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
    "a hook of a node returns gradients on the host": "a node's own `register_hook` is C++'s and cannot be watched",
    "a hook before a node returns gradients on the host": "as above",
    "a recurrent cell's half input": "the CPU names another product of the cell first",
    "a softmax of integers": "kernels have names of their own",
    "a dropout of integers": "kernels have names of their own",
    "distances of two types": "accepted by CUDA's kernel only",
    "grids of another type than the image": "accepted by CUDA's kernel only",
    "integer matrices": "refused by CUDA's kernel only",
    "a batch norm in half precision with a float input": "accepted by CUDA's kernel only",
}


@pytest.fixture(scope="module", params=[False, True], ids=["fast", "exact"], autouse=True)
def two_gpus(request: pytest.FixtureRequest) -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with samedevice.virtual_gpus(2, exact=request.param):
            yield


@pytest.mark.parametrize("situation", situations.all_situations(), ids=lambda situation: situation.title)
def test_comes_to_what_cuda_makes_of_it(situation: situations.Situation) -> None:
    """The same devices, or the same exception in the same words."""
    found = situation.run()
    if situation.title in MISSED:
        assert found != situation.expected, "no longer missed: take it out of the list"
    else:
        assert found == situation.expected
