"""`Prefetcher`: the next batch travels to the GPU while this one is used."""

import sys
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

import torch

from samedevice.runtime.move import NonBlocking, to_device
from samedevice.runtime.structure import inner_tensors

T = TypeVar("T")

_END = object()


class Prefetcher(Generic[T]):
    """Iterates over `loader` with every batch on `device`.

    On a CUDA device the next batch is copied on a stream of its own while the current one is in
    use; that pays when the loader pins its memory (`pin_memory=True`). On the CPU and on virtual
    GPUs it gives each batch as `to_device` moves it. It can be iterated as often as the loader,
    an exception of the loader arrives with the batch that it belongs to, and attributes it has
    not (`dataset`, `sampler`, `batch_size`) are the loader's.
    """

    def __init__(self, loader: Iterable[T], device: Any, non_blocking: NonBlocking = "auto") -> None:
        self.loader = loader
        self.device = torch.device(device)
        self.non_blocking: NonBlocking = non_blocking

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        if name == "loader":  # while unpickling nothing is there yet
            raise AttributeError(name)
        return getattr(self.loader, name)

    def __iter__(self) -> Iterator[T]:
        if self.device.type == "cuda" and not _virtual():
            return self._overlapped()
        return self._plain()

    def _plain(self) -> Iterator[T]:
        for batch in self.loader:
            yield to_device(batch, self.device, self.non_blocking)

    def _overlapped(self) -> Iterator[T]:
        batches = iter(self.loader)
        stream = torch.cuda.Stream(self.device)
        batch, error = self._fetch(batches, stream)
        while batch is not _END and error is None:
            current = torch.cuda.current_stream(self.device)
            current.wait_stream(stream)
            # The memory came from the other stream: it must not be reused there while this one works.
            for tensor in inner_tensors(batch):
                if tensor.is_cuda:
                    tensor.record_stream(current)
            ready = batch
            batch, error = self._fetch(batches, stream)
            yield ready
            del ready
        if error is not None:
            raise error

    def _fetch(self, batches: Iterator[T], stream: Any) -> tuple[Any, BaseException | None]:
        """The next batch on its way; an error is kept until its batch's turn."""
        try:
            batch = next(batches, _END)
            if batch is _END:
                return _END, None
            with torch.cuda.stream(stream):
                return to_device(batch, self.device, self.non_blocking), None
        except Exception as error:
            return _END, error


def _virtual() -> bool:
    """The program runs on virtual GPUs, which their module knows if it is there at all."""
    activation = sys.modules.get("samedevice.virtual.activation")
    return activation is not None and activation.running() is not None
