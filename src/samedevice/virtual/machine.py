"""The state of all virtual GPUs: how many, how full, which is current. Never imports torch."""

import os
import threading
from dataclasses import dataclass, field

GIB = 1 << 30


@dataclass
class GpuMemory:
    """Bytes of one virtual GPU, counted from the tags of living storages."""

    total: int
    allocated: int = 0
    peak: int = 0
    allocations: int = 0
    frees: int = 0


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
    """

    count: int = 1
    gpu_memory: int = 80 * GIB
    initialized: bool = False
    pid: int = field(default_factory=os.getpid)
    memories: list[GpuMemory] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _local: threading.local = field(default_factory=threading.local)

    def __post_init__(self) -> None:
        self.memories = [GpuMemory(self.gpu_memory) for _ in range(self.count)]

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
        memory = self.memories[index]
        with self._lock:
            if memory.allocated + nbytes > memory.total:
                raise OutOfMemory(index, nbytes, memory)
            memory.allocated += nbytes
            memory.allocations += 1
            memory.peak = max(memory.peak, memory.allocated)

    def free(self, index: int, nbytes: int) -> None:
        """Give back what `allocate` counted."""
        memory = self.memories[index]
        with self._lock:
            memory.allocated -= nbytes
            memory.frees += 1
