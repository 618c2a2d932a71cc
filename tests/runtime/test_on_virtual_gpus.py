"""`to_device` and `Prefetcher` where the GPUs are virtual."""

import pytest

torch = pytest.importorskip("torch")

import samedevice  # noqa: E402
from samedevice import Prefetcher, to_device  # noqa: E402

pytestmark = pytest.mark.torch


def test_data_moves_and_only_pinned_memory_is_not_waited_for() -> None:
    with samedevice.virtual_gpus(2) as engine:
        moves = []
        engine.listeners.append(moves.append)
        x = torch.zeros(3)
        data = {
            "x": x,
            "again": x,
            "pinned": torch.zeros(2).pin_memory(),
            "there": torch.ones(1, device="cuda:1"),
        }

        moved = to_device(data, "cuda:1")
        back = to_device(moved, "cpu")

        assert {str(t.device) for t in moved.values()} == {"cuda:1"}
        assert moved["x"] is moved["again"] and moved["there"] is data["there"]
        assert {str(t.device) for t in back.values()} == {"cpu"}
        non_blocking = [(event[2], event[5]) for event in moves]
        assert non_blocking == [(1, False), (1, True), (-1, False), (-1, False), (-1, False)]


def test_cuda_without_an_index_is_the_current_gpu() -> None:
    with samedevice.virtual_gpus(2):
        torch.cuda.set_device(1)

        assert str(to_device([torch.zeros(1)], "cuda")[0].device) == "cuda:1"


def test_a_prefetcher_is_a_plain_iterator() -> None:
    with samedevice.virtual_gpus(1):
        asked = []

        def batches() -> object:
            for i in range(3):
                asked.append(i)
                yield torch.full((1,), float(i))

        for i, batch in enumerate(Prefetcher(batches(), "cuda")):
            assert asked == list(range(i + 1)), "nothing is fetched ahead"
            assert str(batch.device) == "cuda:0" and batch.item() == i
