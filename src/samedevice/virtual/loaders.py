"""DataLoaders under virtual GPUs: which batch a tensor came in, and an end after K batches."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils.data import dataloader

from samedevice.model.scene import Action
from samedevice.runtime.structure import inner_tensors
from samedevice.virtual.patches import Patches
from samedevice.virtual.places import here
from samedevice.virtual.provenance import Birth
from samedevice.virtual.tags import CPU, Tag, device_index, set_tag, tag_of

if TYPE_CHECKING:
    from samedevice.virtual.engine import Engine

#: objects of one batch that are searched for tensors
MOST_OBJECTS: Final = 1_000


def install(patches: Patches, engine: "Engine", max_batches: int | None) -> None:
    """Watch every DataLoader's iteration; end it after `max_batches` batches."""
    iterator = dataloader._BaseDataLoaderIter
    original = iterator.__next__

    def next_batch(self: Any) -> Any:
        if max_batches is not None and self._num_yielded >= max_batches:
            raise StopIteration
        started = Birth(CPU, Action.RECEIVED, "").seq
        batch = original(self)
        if engine.active:
            engine.session.batches += 1
            _label(batch, started)
        return batch

    patches.set(iterator, "__next__", next_batch)
    # `for` asks for `next`, which some torch versions bind apart.
    if "next" in vars(iterator):
        patches.set(iterator, "next", next_batch)


@contextmanager
def at_most(batches: int) -> Iterator[None]:
    """Every DataLoader's iteration ends after so many batches; nothing else is different."""
    iterator = dataloader._BaseDataLoaderIter
    original = iterator.__next__

    def next_batch(self: Any) -> Any:
        if self._num_yielded >= batches:
            raise StopIteration
        return original(self)

    patches = Patches()
    patches.set(iterator, "__next__", next_batch)
    if "next" in vars(iterator):
        patches.set(iterator, "next", next_batch)
    try:
        yield
    finally:
        patches.undo()


def _label(batch: Any, started: int) -> None:
    """Tensors collated for this batch were born in the loop that asks for it."""
    place = here(3)
    with torch._C.DisableTorchFunction():
        # A batch may be an object of the program's own, or of a package.
        for tensor in inner_tensors(batch, MOST_OBJECTS):
            if device_index(tensor) != CPU:
                continue
            tag = tag_of(tensor)
            if tag is not None and tag.birth is not None and tag.birth.seq < started:
                continue  # a view of the data set itself
            # One birth each: what is moved or thrown away of a batch is told apart by it.
            birth = Birth(CPU, Action.BATCHED, "DataLoader", place)
            labelled = Tag(CPU, birth, pinned=tag is not None and tag.pinned)
            set_tag(tensor, labelled)
