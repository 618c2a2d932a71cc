"""What is watched alike on virtual GPUs and real ones: loaders, optimizers, prints, synchronisations."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import dataloader

from samedevice.profile.recorder import Recorder


class Watching:
    """Tells a recorder of steps and of explicit waits; everything is undone on leaving."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.undo: list[Callable[[], None]] = []

    def on_gpu(self, value: Any) -> bool:
        """A tensor that is not in host memory."""
        raise NotImplementedError

    def batch_came(self, batch: Any) -> None:
        """A loader gave this."""

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Record while the block runs."""
        try:
            self.attach()
            yield
        finally:
            while self.undo:
                self.undo.pop()()

    def attach(self) -> None:
        """Put all hooks in place."""
        handle = register_optimizer_step_post_hook(
            lambda optimizer, args, kwargs: self.recorder.optimizer_step(id(optimizer))
        )
        self.undo.append(handle.remove)
        self._watch_loaders()
        self._watch_prints()
        self._watch_cuda()

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute until the end."""
        original = vars(owner)[name]
        setattr(owner, name, value)
        self.undo.append(lambda: setattr(owner, name, original))

    def as_one(self, go: Callable[[], Any]) -> Any:
        """Run what has been told already: its parts are not told again."""
        self.recorder.enter()
        try:
            return go()
        finally:
            self.recorder.leave()

    def _watch_loaders(self) -> None:
        recorder, made = self.recorder, dataloader.DataLoader.__init__
        iterate, next_batch = dataloader.DataLoader.__iter__, dataloader._BaseDataLoaderIter.__next__

        def initialise(loader: Any, *args: Any, **kwargs: Any) -> None:
            made(loader, *args, **kwargs)
            loader._samedevice_number = len(recorder.loaders)
            recorder.loader_made(loader._samedevice_number, bool(loader.pin_memory))

        def iterator_of(loader: Any) -> Any:
            iterator = iterate(loader)
            iterator._samedevice_number = getattr(loader, "_samedevice_number", None)
            return iterator

        def fetch(iterator: Any) -> Any:
            recorder.step_begins()
            batch = next_batch(iterator)
            recorder.batch(getattr(iterator, "_samedevice_number", None))
            self.batch_came(batch)
            return batch

        self.replace(dataloader.DataLoader, "__init__", functools.wraps(made)(initialise))
        self.replace(dataloader.DataLoader, "__iter__", functools.wraps(iterate)(iterator_of))
        self.replace(dataloader._BaseDataLoaderIter, "__next__", functools.wraps(next_batch)(fetch))

    def _watch_prints(self) -> None:
        recorder, shown = self.recorder, torch._tensor_str._str

        def text_of(tensor: Any, **kwargs: Any) -> Any:
            if recorder.inside or not self.on_gpu(tensor):
                return shown(tensor, **kwargs)
            with torch._C.DisableTorchFunction():
                nbytes, shape = nbytes_of(tensor), shape_of(tensor)
            recorder.sync("print", nbytes, function="print", shape=shape)
            return self.as_one(lambda: shown(tensor, **kwargs))

        self.replace(torch._tensor_str, "_str", text_of)

    def _watch_cuda(self) -> None:
        for owner in (torch.cuda, torch.cuda.Stream, torch.cuda.Event):
            if "synchronize" not in vars(owner):
                continue
            original = vars(owner)["synchronize"]

            def synchronize(*args: Any, _original: Any = original, **kwargs: Any) -> Any:
                self.recorder.sync("synchronize", function="synchronize")
                return self.as_one(lambda: _original(*args, **kwargs))

            self.replace(owner, "synchronize", synchronize)


def nbytes_of(tensor: Any) -> int:
    """Bytes of the elements; 0 for layouts that cannot say."""
    try:
        return int(tensor.numel() * tensor.element_size())
    except (RuntimeError, NotImplementedError):
        return 0


def shape_of(tensor: Any) -> tuple[int, ...]:
    """The shape; empty for layouts that cannot say."""
    try:
        return tuple(int(size) for size in tensor.shape)
    except (RuntimeError, NotImplementedError, TypeError):
        return ()


def is_written(tensor: Any) -> bool:
    """Something was written into it after it was made."""
    try:
        return bool(tensor._version)
    except RuntimeError:
        return False  # inference tensors do not count
