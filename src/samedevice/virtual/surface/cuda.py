"""`torch.cuda` at its C entry points: how many GPUs, which is current, what they are."""

import os
from typing import Any

import torch

from samedevice.virtual.errors import invalid_ordinal
from samedevice.virtual.machine import Machine
from samedevice.virtual.patches import Patches
from samedevice.virtual.surface import properties


def install(patches: Patches, machine: Machine) -> None:
    """Make `torch.cuda` see the machine's GPUs."""
    cuda = torch.cuda
    environment = os.environ.get("CUDA_VISIBLE_DEVICES")

    def device_count() -> int:
        # What the program sets itself counts, not what its environment came with: there is no
        # real GPU to hide, and machines without one often run with an empty list.
        if os.environ.get("CUDA_VISIBLE_DEVICES") == environment:
            return machine.count
        return min(machine.count, len(cuda._parse_visible_devices()))

    def check(index: int) -> None:
        if index >= machine.count:
            raise invalid_ordinal()

    def exchange_device(index: int) -> int:
        if index < 0:
            return -1
        cuda._lazy_init()
        check(index)
        previous = machine.current
        machine.current = index
        return previous

    def set_device(index: int) -> None:
        cuda._lazy_init()
        check(index)
        machine.current = index

    def get_device() -> int:
        cuda._lazy_init()
        return machine.current

    def start() -> None:
        machine.initialized = True
        machine.count = device_count()

    def synchronize(device: int = -1) -> None:
        if device >= 0:
            check(device)

    state = {"cudnn_benchmark_limit": 10, "conv_empty_cache": False}

    entry_points: dict[str, Any] = {
        "getDeviceCount": device_count,
        "init": start,
        "setDevice": set_device,
        "getDevice": get_device,
        "exchangeDevice": exchange_device,
        "maybeExchangeDevice": exchange_device,
        "isInBadFork": lambda: machine.in_forked_child,
        "synchronize": synchronize,
        "canDeviceAccessPeer": lambda device, peer: device != peer,
        "getArchFlags": lambda: properties.ARCHITECTURES,
        "getCompiledVersion": lambda: 13000,
        "getHipblasltVersion": lambda: 0,
        "hasPrimaryContext": lambda index: machine.initialized and 0 <= index < machine.count,
        "ipc_collect": lambda: None,
        "sleep": lambda cycles: None,
        "set_cudnn_benchmark_limit": lambda limit: state.__setitem__("cudnn_benchmark_limit", int(limit)),
        "get_cudnn_benchmark_limit": lambda: state["cudnn_benchmark_limit"],
        "set_conv_benchmark_empty_cache": lambda value: state.__setitem__("conv_empty_cache", bool(value)),
        "get_conv_benchmark_empty_cache": lambda: state["conv_empty_cache"],
        "getCurrentBlasHandle": lambda: 0x2010 + machine.current,
        "getCurrentSolverHandle": lambda: 0x3010 + machine.current,
        "clearCublasWorkspaces": lambda: None,
        "isCurrentStreamCapturing": lambda: False,
    }
    for name, function in entry_points.items():
        patches.set(torch._C, f"_cuda_{name}", function)

    patches.set(cuda, "_is_compiled", lambda: True)
    patches.set(cuda, "_is_in_bad_fork", entry_points["isInBadFork"])
    patches.set(cuda, "_exchange_device", exchange_device)
    patches.set(cuda, "_maybe_exchange_device", exchange_device)
    # nvidia-smi knows nothing of virtual GPUs, and may know of real ones
    patches.set(cuda, "_device_count_nvml", lambda: -1)
    patches.set(cuda, "_cached_device_count", None)
    patches.set(cuda, "_initialized", False)
    patches.set(cuda, "_queued_calls", [])
    patches.set(cuda, "_lazy_seed_tracker", torch._utils._LazySeedTracker())
    patches.set(cuda, "_CudaDeviceProperties", properties.DeviceProperties)
    patches.set(
        cuda,
        "_get_device_properties",
        lambda index: properties.properties_of(index, machine.memories[index].total),
    )
    patches.set(torch._C, "_has_cuda", True)
    patches.set(torch._C, "_has_cudnn", True)
    if torch.version.cuda is None:
        patches.set(torch.version, "cuda", properties.CUDA_VERSION)

    patches.on_undo(cuda._check_bf16_tensor_supported.cache_clear)
    cuda._check_bf16_tensor_supported.cache_clear()
