"""`torch.distributed` on virtual GPUs: NCCL's interface, checks and words, with gloo carrying the data.

A process group asked for with "nccl" is PyTorch's own `ProcessGroup` whose backend for "cuda" is
`nccl.ProcessGroupNCCL`, a gloo backend under NCCL's name. Every collective, whoever calls it (Python,
DDP's reducer, a functional collective), reaches one of the `c10d` operators; `collectives` puts its
own kernels there while such a group exists. `checks` says what NCCL would say of the operands.
"""

from typing import Any

import torch

from samedevice.virtual.patches import Patches


def install(patches: Patches, activation: Any) -> None:
    """Make "nccl" a backend that works on virtual GPUs."""
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        return
    from samedevice.virtual.distributed import construction, nccl

    collectives = nccl.install(patches, activation)
    construction.install(patches, activation.engine, collectives)
