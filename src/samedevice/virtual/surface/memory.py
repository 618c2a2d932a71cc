"""Memory statistics, counted from the tags of living storages."""

from typing import Any

import torch

from samedevice.virtual.errors import out_of_memory
from samedevice.virtual.machine import SEGMENT, GpuMemory, Machine, OutOfMemory
from samedevice.virtual.patches import Patches

_POOLS = ("all", "large_pool", "small_pool")
_BYTES = ("active_bytes", "allocated_bytes", "requested_bytes")
_COUNTS = ("active", "allocation")


def _pools(current: int, peak: int, allocated: int, freed: int) -> dict[str, dict[str, int]]:
    whole = {"current": current, "peak": peak, "allocated": allocated, "freed": freed}
    # one pool: the virtual allocator knows no small blocks
    return {"all": whole, "large_pool": dict(whole), "small_pool": dict.fromkeys(whole, 0)}


def statistics(memory: GpuMemory) -> dict[str, Any]:
    """What `torch._C._cuda_memoryStats` returns for one GPU."""
    stats: dict[str, Any] = {
        name: _pools(memory.allocated, memory.peak, memory.allocated_total, memory.freed_total)
        for name in _BYTES
    }
    living = memory.allocations - memory.frees
    for name in _COUNTS:
        stats[name] = _pools(living, living, memory.allocations, memory.frees)
    stats["reserved_bytes"] = _pools(memory.reserved, memory.reserved_peak, memory.reserved_peak, 0)
    segments = memory.reserved // SEGMENT
    stats["segment"] = _pools(segments, memory.reserved_peak // SEGMENT, segments, 0)
    for name in ("inactive_split", "inactive_split_bytes"):
        stats[name] = _pools(0, 0, 0, 0)
    for name in ("oversize_allocations", "oversize_segments"):
        stats[name] = {"current": 0, "peak": 0, "allocated": 0, "freed": 0}
    stats.update(
        max_split_size=-1,
        num_alloc_retries=memory.ooms,
        num_ooms=memory.ooms,
        num_device_alloc=segments,
        num_device_free=0,
        num_sync_all_streams=0,
        num_oom_rejections=0,
    )
    return stats


def _host_statistics() -> dict[str, Any]:
    names = ("allocations", "allocated_bytes", "active_requests", "active_bytes")
    stats: dict[str, Any] = {n: {"current": 0, "peak": 0, "allocated": 0, "freed": 0} for n in names}
    for name in ("host_alloc_time", "host_free_time"):
        stats[name] = {"avg": 0, "count": 0, "max": 0, "min": 0, "total": 0}
    stats.update(num_host_alloc=0, num_host_free=0)
    return stats


def install(patches: Patches, machine: Machine) -> None:
    """Count instead of asking a caching allocator."""
    raw: dict[int, tuple[int, int]] = {}
    addresses = iter(range(0x7F0000000000, 1 << 62, 1 << 40))
    state = {"caching": True}

    def memory(index: int) -> GpuMemory:
        if not 0 <= index < machine.count:
            raise RuntimeError(f"Invalid device argument {chr(index & 0x7F)}: did you call init?")
        return machine.memories[index]

    def raw_alloc(size: int, stream: int) -> int:
        try:
            machine.allocate(machine.current, size)
        except OutOfMemory as full:
            raise out_of_memory(full)
        address = next(addresses)
        raw[address] = (machine.current, size)
        return address

    def raw_delete(address: int) -> None:
        if address in raw:
            machine.free(*raw.pop(address))

    def set_fraction(fraction: float, index: int) -> None:
        found = memory(index)
        found.limit = int(found.total * fraction)

    def empty_cache(*_: Any) -> None:
        for each in machine.memories:
            each.empty_cache()

    def snapshot(*_: Any) -> dict[str, Any]:
        return {"segments": [], "device_traces": [[] for _ in range(machine.count)], "allocator_settings": {}}

    entry_points: dict[str, Any] = {
        "memoryStats": lambda index: statistics(memory(index)),
        "resetPeakMemoryStats": lambda index: memory(index).reset_peak(),
        "resetAccumulatedMemoryStats": lambda index: memory(index).reset_accumulated(),
        "emptyCache": empty_cache,
        "setMemoryFraction": set_fraction,
        "getMemoryFraction": lambda index: memory(index).limit / memory(index).total,
        "hostMemoryStats": _host_statistics,
        "resetAccumulatedHostMemoryStats": lambda: None,
        "resetPeakHostMemoryStats": lambda: None,
        "memorySnapshot": snapshot,
        "record_memory_history": lambda *args, **kwargs: None,
        "record_memory_history_legacy": lambda *args, **kwargs: None,
        "isHistoryEnabled": lambda: False,
        "attach_out_of_memory_observer": lambda observer: None,
        "getAllocatorBackend": lambda: "native",
        "cudaCachingAllocator_raw_alloc": raw_alloc,
        "cudaCachingAllocator_raw_delete": raw_delete,
        "cudaCachingAllocator_enable": lambda value: state.__setitem__("caching", bool(value)),
        "cudaCachingAllocator_is_enabled": lambda: state["caching"],
    }
    for name, function in entry_points.items():
        patches.set(torch._C, f"_cuda_{name}", function)
