"""Ray looks for GPUs in the driver's library; on virtual GPUs it finds the machine's."""

from types import ModuleType
from typing import Any, Final

from samedevice.virtual.machine import Machine
from samedevice.virtual.patches import Patches

MODULE: Final = "ray._private.accelerators.nvidia_gpu"


def install(patches: Patches, machine: Machine) -> None:
    """Answer Ray's question for the number of GPUs, now or when Ray is imported."""

    def answer(module: ModuleType) -> None:
        manager: Any = getattr(module, "NvidiaGPUAcceleratorManager", None)
        if hasattr(manager, "get_current_node_num_accelerators"):
            patches.set(manager, "get_current_node_num_accelerators", staticmethod(lambda: machine.count))

    patches.on_import(MODULE, answer)
