"""CUDA graphs, captured and replayed on the host, and memory pools."""

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import torch

from samedevice.virtual.capture import Recording, replay
from samedevice.virtual.patches import Patches

_UNREADY = "Called CUDAGraph::replay without a preceding successful capture."


class CUDAGraph:
    """`torch.cuda.CUDAGraph`."""

    _engine: Any = None
    #: the graph that is being captured; CUDA allows one at a time as well
    _capturing: "CUDAGraph | None" = None

    def __init__(self, keep_graph: bool = False) -> None:
        self._pool: Any = None
        self._recording: Recording | None = None

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global", **more: Any) -> None:
        """Note what is done from now on."""
        if self._recording is not None:
            raise RuntimeError(
                "This CUDAGraph instance already owns a captured graph. To capture a new graph, create a new "
                "instance."
            )
        if torch.cuda.current_stream() == torch.cuda.default_stream():
            raise RuntimeError("CUDA graphs must be captured on a non-default stream.")
        self._pool = getattr(pool, "id", pool)
        recording = Recording(self._engine)
        recording.begin()
        self._recording = recording
        CUDAGraph._capturing = self

    def capture_end(self) -> None:
        """What was noted can be replayed."""
        if CUDAGraph._capturing is not self or self._recording is None:
            raise RuntimeError("capture_end() called without a preceding capture_begin()")
        CUDAGraph._capturing = None
        self._recording.end()

    def instantiate(self) -> None:
        """Nothing is left to do."""

    def replay(self) -> None:
        """Do it all again, on the same memory."""
        if self._recording is None or CUDAGraph._capturing is self:
            raise RuntimeError(_UNREADY)
        replay(self._engine, self._recording)

    def reset(self) -> None:
        """Forget what was captured."""
        self._recording = None

    def pool(self) -> Any:
        """The memory pool of the graph."""
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        return self._pool

    def enable_debug_mode(self) -> None:
        """There is nothing to dump."""

    def debug_dump(self, debug_path: str) -> None:
        """There is nothing to dump."""

    def register_generator_state(self, generator: Any) -> None:
        """Numbers are drawn anew on each replay anyway."""


class MemPool:
    """`torch.cuda.MemPool`: the virtual allocator has one pool, this is a name for it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.id = torch.cuda.graph_pool_handle()
        self.allocator = None

    def use_count(self) -> int:
        """Who uses the pool besides its owner."""
        return 1

    def snapshot(self) -> list[Any]:
        """Nothing is recorded."""
        return []


@contextlib.contextmanager
def _use_mem_pool(pool: Any, device: Any = None) -> Iterator[None]:
    yield


CUDAGraph.__module__ = "torch.cuda.graphs"


def install(patches: Patches, activation: Any) -> None:
    """Replace what `torch.cuda.graphs` takes from C++."""
    numbers = itertools.count(1)

    def pool_handle() -> tuple[int, int]:
        return (0, next(numbers))

    def is_capturing() -> bool:
        return CUDAGraph._capturing is not None

    patches.set(CUDAGraph, "_engine", activation.engine)
    patches.set(CUDAGraph, "_capturing", None)
    for module in (torch.cuda, torch.cuda.memory):
        patches.set(module, "MemPool", MemPool)
        patches.set(module, "use_mem_pool", _use_mem_pool)
    graphs = torch.cuda.graphs
    patches.set(graphs, "_cuda_isCurrentStreamCapturing", is_capturing)
    patches.set(torch._C, "_cuda_isCurrentStreamCapturing", is_capturing)
    patches.set(graphs, "_graph_pool_handle", pool_handle)
    patches.set(torch._C, "_graph_pool_handle", pool_handle)
    patches.set(torch._C, "_host_emptyCache", lambda: None)
    patches.set(graphs.graph, "default_capture_stream", None)
    for module in (torch.cuda, graphs):
        patches.set(module, "CUDAGraph", CUDAGraph)
