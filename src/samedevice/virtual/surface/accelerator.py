"""`torch.accelerator`: the virtual GPUs are the machine's accelerator."""

from collections.abc import Callable
from typing import Any

import torch

from samedevice.virtual.machine import Machine
from samedevice.virtual.patches import Patches


def make_device(func: Any, types: Any, args: Any, kwargs: Any, engine: Any) -> Any:
    """`torch.device(1)`: a number alone names the accelerator, which a CPU build does not have."""
    if len(args) == 1 and isinstance(args[0], int) and not kwargs:
        return func("cuda", args[0])
    if not args and kwargs.keys() == {"device"} and isinstance(kwargs["device"], int):
        return func("cuda", kwargs["device"])
    return func(*args, **kwargs)


def parse_to(func: Any, types: Any, args: Any, kwargs: Any, engine: Any) -> Any:
    """What `Module.to(1)` means: C++ would ask which accelerator the number is one of."""
    if args and args[0].__class__ is int:
        args = (torch.device("cuda", args[0]), *args[1:])
    elif kwargs.get("device").__class__ is int:
        kwargs = {**kwargs, "device": torch.device("cuda", kwargs["device"])}
    return func(*args, **kwargs)


HANDLERS: dict[Any, Callable[..., Any]] = {torch.device: make_device, torch._C._nn._parse_to: parse_to}


def install(patches: Patches, machine: Machine) -> None:
    """Point the `_accelerator_*` entry points at those of `torch.cuda`."""
    core = torch._C
    device = torch.device("cuda")

    def current_index() -> int:
        return torch.cuda.current_device()

    def get_stream(index: int) -> Any:
        return torch.Stream(
            stream_id=core._cuda_getCurrentStream(index)[0], device_index=index, device_type=1
        )

    def set_stream(stream: Any) -> None:
        core._cuda_setStream(
            stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type
        )

    def synchronize(index: int) -> None:
        core._cuda_synchronize(index)

    def capability(index: int) -> dict[str, Any]:
        raise RuntimeError("Backend doesn't support getting device capabilities.")

    entry_points: dict[str, Any] = {
        "getAccelerator": lambda: device,
        "setDeviceIndex": lambda index: core._cuda_setDevice(index) if index >= 0 else None,
        "getDeviceIndex": current_index,
        "exchangeDevice": core._cuda_exchangeDevice,
        "maybeExchangeDevice": core._cuda_maybeExchangeDevice,
        "getStream": get_stream,
        "setStream": set_stream,
        "synchronizeDevice": synchronize,
        "getDeviceCapability": capability,
        "isAllocatorInitialized": lambda: machine.initialized,
        "emptyCache": lambda *_: core._cuda_emptyCache(),
        "emptyHostCache": lambda: None,
        "getDeviceStats": core._cuda_memoryStats,
        "resetAccumulatedStats": core._cuda_resetAccumulatedMemoryStats,
        "resetPeakStats": core._cuda_resetPeakMemoryStats,
        "getMemoryInfo": torch.cuda.mem_get_info,
        "hooks_device_count": lambda: machine.count,
        "hooks_set_current_device": core._cuda_setDevice,
        "hooks_get_current_device": current_index,
        "hooks_exchange_device": core._cuda_exchangeDevice,
        "hooks_maybe_exchange_device": core._cuda_maybeExchangeDevice,
        "getDefaultGenerator": lambda where: torch.cuda.default_generators[
            torch.cuda.current_device() if where.index is None else where.index
        ],
    }
    for name, function in entry_points.items():
        if hasattr(core, f"_accelerator_{name}"):
            patches.set(core, f"_accelerator_{name}", function)
    patches.set(core, "_get_accelerator", lambda check=None: device)

    capability_cache = torch.accelerator.get_device_capability.cache_clear
    capability_cache()
    patches.on_undo(capability_cache)
