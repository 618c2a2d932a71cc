"""What programs see of virtual GPUs around the operators: `torch.cuda`, storages, files, threads.

Each module patches one part through a `Patches` object, so that leaving `virtual_gpus` restores
torch attribute for attribute. `HANDLERS` holds what a patch cannot reach: C functions of tensors,
answered by the function mode. A handler is called as `handler(func, types, args, kwargs, engine)`;
`engine` offers `device_of(tensor) -> int`, `tag(tensor, device)`, `move(tensor, device)`, `machine`.
"""

from collections.abc import Callable
from typing import Any

from samedevice.virtual.machine import Machine
from samedevice.virtual.patches import Patches
from samedevice.virtual.surface import accelerator, cuda, generators, runtime

HANDLERS: dict[Any, Callable[..., Any]] = {}


def install(patches: Patches, machine: Machine, session: Any) -> None:
    """Patch every part; `patches.undo()` restores torch."""
    cuda.install(patches, machine)
    runtime.install(patches, machine)
    generators.install(patches, machine)
    accelerator.install(patches, machine)
