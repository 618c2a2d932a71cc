"""`torch.backends.cudnn` and its kin: flags can be set and read, nothing is called."""

from collections import defaultdict
from typing import Any

import torch

from samedevice.virtual.machine import Machine
from samedevice.virtual.patches import Patches
from samedevice.virtual.surface.properties import CUDNN_VERSION


class _PlanCache:
    """`torch.backends.cuda.cufft_plan_cache`: a cache in which nothing is kept."""

    def __init__(self) -> None:
        self.max_size = 4096
        self.size = 0

    def clear(self) -> None:
        """Nothing is cached."""


class _PlanCaches(_PlanCache):
    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self._machine = machine
        self._caches: dict[int, _PlanCache] = defaultdict(_PlanCache)

    def __getitem__(self, device: Any) -> _PlanCache:
        index = torch.cuda._utils._get_device_index(device)
        if not 0 <= index < self._machine.count:
            raise RuntimeError(
                f"cufft_plan_cache: expected 0 <= device index < {self._machine.count}, but got "
                f"device with index {index}"
            )
        return self._caches[index]


def install(patches: Patches, engine: Any) -> None:
    """Make the CUDA libraries seem to be there."""
    cudnn = torch.backends.cudnn

    def is_acceptable(tensor: torch.Tensor) -> bool:
        return (
            torch._C._get_cudnn_enabled()
            and tensor.device.type == "cuda"
            and tensor.dtype in cudnn.CUDNN_TENSOR_DTYPES
        )

    # the module object in `sys.modules` stands in front of the real one
    module = getattr(cudnn, "m", cudnn)
    patches.set(module, "version", lambda: CUDNN_VERSION)
    patches.set(module, "_init", lambda: True)
    patches.set(module, "is_acceptable", is_acceptable)
    # An RNN's weights stay where they are: cuDNN's one flat buffer has no counterpart on the CPU.
    patches.set(torch, "_use_cudnn_rnn_flatten_weight", lambda: False)
    patches.set(torch.backends.cuda, "cufft_plan_cache", _PlanCaches(engine.machine))
    _store_preferences(patches)


def _store_preferences(patches: Patches) -> None:
    """Preferred libraries can be chosen although a CPU build has none to choose from."""
    if torch._C._has_cuda and hasattr(torch._C, "_CudaDeviceProperties"):
        return
    chosen: dict[str, Any] = {}
    for name in ("linalg", "blas"):
        getter, setter = f"_get_{name}_preferred_backend", f"_set_{name}_preferred_backend"
        real = getattr(torch._C, getter)
        patches.set(torch._C, getter, lambda name=name, real=real: chosen.get(name) or real())
        patches.set(torch._C, setter, lambda backend, name=name: chosen.__setitem__(name, backend))
