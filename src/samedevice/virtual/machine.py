"""The state of all virtual GPUs: how many, how full, which is current. Never imports torch."""

import os
import threading
from dataclasses import dataclass, field
from typing import Any

GIB = 1 << 30

#: the caching allocator's own: sizes are rounded up to it, and memory is taken from the GPU in segments
BLOCK = 512
SEGMENT = 2 << 20


@dataclass
class GpuMemory:
    """Bytes of one virtual GPU, counted from the tags of living storages.

    Attributes:
        total: bytes of the GPU.
        limit: bytes this process may use of them.
        allocated, peak: now, and at most since the last reset.
        reserved, reserved_peak: what a caching allocator would hold on to.
        allocations, frees: numbers of calls.
        allocated_total, freed_total: bytes ever allocated and given back.
        ooms: allocations refused.
    """

    total: int
    limit: int = 0
    allocated: int = 0
    peak: int = 0
    reserved: int = 0
    reserved_peak: int = 0
    allocations: int = 0
    frees: int = 0
    allocated_total: int = 0
    freed_total: int = 0
    ooms: int = 0

    def __post_init__(self) -> None:
        self.limit = self.limit or self.total

    def empty_cache(self) -> None:
        """Give back what is reserved and not in use."""
        self.reserved = -(-self.allocated // SEGMENT) * SEGMENT

    def reset_peak(self) -> None:
        """Forget the peaks."""
        self.peak = self.allocated
        self.reserved_peak = self.reserved

    def reset_accumulated(self) -> None:
        """Forget the totals."""
        self.allocations = self.frees = self.allocated_total = self.freed_total = self.ooms = 0


class OutOfMemory(Exception):
    """An allocation does not fit; carries what CUDA's message needs."""

    def __init__(self, device: int, wanted: int, memory: GpuMemory) -> None:
        super().__init__(f"cuda:{device} cannot hold {wanted} more bytes")
        self.device = device
        self.wanted = wanted
        self.memory = memory


@dataclass
class Machine:
    """N virtual GPUs of one process.

    Attributes:
        count: number of GPUs that the program sees.
        gpu_memory: bytes of each GPU.
        initialized: some CUDA work was done in this process (a fork after it is "bad").
        pid: the process that owns the machine.
        draws: calls that drew random numbers on a GPU.
    """

    count: int = 1
    gpu_memory: int = 80 * GIB
    initialized: bool = False
    pid: int = field(default_factory=os.getpid)
    draws: int = 0
    memories: list[GpuMemory] = field(default_factory=list)
    #: the default generator of each GPU
    generators: list[Any] = field(default_factory=list)
    #: reentrant: a tag may be collected, and give its bytes back, in the middle of an allocation
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _local: threading.local = field(default_factory=threading.local)

    def __post_init__(self) -> None:
        self.resize(self.count)

    def resize(self, count: int) -> None:
        """Have so many GPUs from now on; what is on one that is gone stays counted there."""
        self.count = count
        self.memories += [GpuMemory(self.gpu_memory) for _ in range(count - len(self.memories))]

    @property
    def current(self) -> int:
        """The current device of the calling thread, 0 at first."""
        return getattr(self._local, "current", 0)

    @current.setter
    def current(self, index: int) -> None:
        self._local.current = index

    @property
    def in_forked_child(self) -> bool:
        """CUDA was used before a fork, and this is the child: CUDA refuses to work here."""
        return self.initialized and os.getpid() != self.pid

    def allocate(self, index: int, nbytes: int) -> None:
        """Count `nbytes` on a GPU.

        Raises:
            OutOfMemory: they do not fit.
        """
        size = -(-nbytes // BLOCK) * BLOCK
        memory = self.memories[index]
        with self._lock:
            allocated = memory.allocated + size
            if allocated > memory.limit:
                memory.ooms += 1
                raise OutOfMemory(index, nbytes, memory)
            memory.allocated = allocated
            memory.allocations += 1
            memory.allocated_total += size
            if allocated > memory.peak:
                memory.peak = allocated
            if allocated > memory.reserved:
                memory.reserved = -(-allocated // SEGMENT) * SEGMENT
                memory.reserved_peak = max(memory.reserved_peak, memory.reserved)

    def free(self, index: int, nbytes: int) -> None:
        """Give back what `allocate` counted."""
        size = -(-nbytes // BLOCK) * BLOCK
        memory = self.memories[index]
        with self._lock:
            memory.allocated -= size
            memory.frees += 1
            memory.freed_total += size
