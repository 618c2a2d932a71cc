"""CUDA graphs and memory pools: capturing is refused with a clear message, graphed callables run eagerly."""

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import torch

from samedevice.virtual.patches import Patches

_NOTE = "`torch.cuda.make_graphed_callables` left its callables as they are: virtual GPUs capture no graphs"


class CUDAGraph:
    """`torch.cuda.CUDAGraph`: can be made, cannot capture."""

    def __init__(self, keep_graph: bool = False) -> None:
        self._pool: Any = None

    def capture_begin(self, *args: Any, **kwargs: Any) -> None:
        """Refused: nothing could be replayed."""
        raise NotImplementedError("virtual GPUs cannot capture CUDA graphs; run this part without a graph")

    def replay(self) -> None:
        """As PyTorch says of an empty graph."""
        raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")

    def reset(self) -> None:
        """Nothing was captured."""

    def pool(self) -> Any:
        """The memory pool of the graph."""
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        return self._pool


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

    def make_graphed_callables(callables: Any, *args: Any, **kwargs: Any) -> Any:
        activation.note(_NOTE)
        return callables

    for module in (torch.cuda, torch.cuda.memory):
        patches.set(module, "MemPool", MemPool)
        patches.set(module, "use_mem_pool", _use_mem_pool)
    graphs = torch.cuda.graphs
    patches.set(graphs, "_cuda_isCurrentStreamCapturing", lambda: False)
    patches.set(graphs, "_graph_pool_handle", pool_handle)
    patches.set(torch._C, "_graph_pool_handle", pool_handle)
    patches.set(torch._C, "_host_emptyCache", lambda: None)
    for module in (torch.cuda, graphs):
        patches.set(module, "CUDAGraph", CUDAGraph)
        patches.set(module, "make_graphed_callables", make_graphed_callables)
