"""`Prefetcher`: a loader's batches on a device, one ahead where that helps."""

import contextlib
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from samedevice import Prefetcher  # noqa: E402

pytestmark = pytest.mark.torch


class Loader:
    batch_size = 4

    def __init__(self, count: int = 3, fails_at: int | None = None) -> None:
        self.count = count
        self.fails_at = fails_at
        self.given = 0
        self.closed = 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Any]:
        try:
            for i in range(self.count):
                if i == self.fails_at:
                    raise ValueError("bad sample")
                self.given += 1
                yield {"x": torch.full((2,), float(i)), "i": i}
        finally:
            self.closed += 1


class Streams:
    """Records what would be asked of CUDA; the copies run on the CPU."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log: list[str] = []
        self.wait_stream = lambda other: self.log.append("wait")
        monkeypatch.setattr(torch.cuda, "Stream", lambda device: "side")
        monkeypatch.setattr(torch.cuda, "current_stream", lambda device: self)
        monkeypatch.setattr(torch.cuda, "stream", self.enter)

    @contextlib.contextmanager
    def enter(self, stream: str) -> Iterator[None]:
        self.log.append("copy")
        yield


def overlapped(loader: Any) -> Iterator[Any]:
    prefetcher = Prefetcher(loader, "cpu")
    return prefetcher._overlapped()


def test_batches_come_on_the_device_in_every_epoch() -> None:
    prefetcher = Prefetcher(Loader(), "meta")

    for _ in range(2):
        assert [batch["i"] for batch in prefetcher] == [0, 1, 2]
    assert all(batch["x"].is_meta for batch in prefetcher)
    assert len(prefetcher) == 3


def test_the_rest_is_the_loaders() -> None:
    prefetcher = Prefetcher(torch.utils.data.DataLoader([1, 2, 3, 4], batch_size=2), "cpu")

    assert prefetcher.batch_size == 2 and list(prefetcher.dataset) == [1, 2, 3, 4]
    assert [batch.tolist() for batch in pickle.loads(pickle.dumps(prefetcher))] == [[1, 2], [3, 4]]
    with pytest.raises(AttributeError):
        _ = prefetcher.nothing


def test_the_next_batch_is_copied_before_this_one_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    streams, loader = Streams(monkeypatch), Loader()

    seen = []
    for batch in overlapped(loader):
        seen.append((batch["i"], batch["x"].tolist(), loader.given))

    assert seen == [(0, [0.0, 0.0], 2), (1, [1.0, 1.0], 3), (2, [2.0, 2.0], 3)]
    assert streams.log == ["copy", "wait", "copy", "wait", "copy", "wait"]


def test_an_error_of_the_loader_arrives_at_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    Streams(monkeypatch)
    seen = []

    with pytest.raises(ValueError, match="bad sample"):
        for batch in overlapped(Loader(fails_at=2)):
            seen.append(batch["i"])

    assert seen == [0, 1]


def test_leaving_early_closes_the_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    Streams(monkeypatch)
    loader = Loader(count=100)
    batches = overlapped(loader)

    next(batches)
    batches.close()

    assert loader.given == 2 and loader.closed == 1


def test_an_empty_loader_gives_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    Streams(monkeypatch)

    assert list(overlapped(Loader(count=0))) == []
