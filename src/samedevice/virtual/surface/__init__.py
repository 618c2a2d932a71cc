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
from samedevice.virtual.surface import (
    accelerator,
    autocast,
    backends,
    compile,
    cuda,
    determinism,
    dlpack,
    generators,
    graphs,
    jiterator,
    legacy,
    memory,
    nested,
    optimizers,
    parallel,
    printing,
    profiling,
    ray,
    runtime,
    serialization,
    states,
    storages,
    streams,
    synchronising,
    threads,
    triton,
    tuning,
)

HANDLERS: dict[Any, Callable[..., Any]] = {**accelerator.HANDLERS, **nested.HANDLERS}


def install(patches: Patches, machine: Machine, activation: Any) -> None:
    """Patch every part; `patches.undo()` restores torch."""
    engine = activation.engine
    runtime.install(patches, machine)
    cuda.install(patches, machine)
    tuning.install(patches, machine)
    generators.install(patches, machine)
    memory.install(patches, machine)
    streams.install(patches, machine)
    accelerator.install(patches, machine)
    storages.install(patches, engine)
    states.install(patches, engine)
    dlpack.install(patches, engine)
    serialization.install(patches, engine)
    parallel.install(patches, engine)
    optimizers.install(patches, engine)
    determinism.install(patches, engine)
    synchronising.install(patches, engine)
    nested.install(patches, engine)
    backends.install(patches, engine)
    graphs.install(patches, activation)
    jiterator.install(patches, engine)
    compile.install(patches, activation)
    legacy.install(patches, engine)
    printing.install(patches)
    profiling.install(patches, activation)
    autocast.install(patches, engine)
    threads.install(patches, activation)
    ray.install(patches, machine)
    triton.install(patches, activation)
