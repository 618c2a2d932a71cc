"""`virtual_gpus`: the context in which a CPU has GPUs."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from samedevice import inherit
from samedevice.model.errors import MISSING_TORCH, UserError
from samedevice.virtual.machine import GIB, Machine

#: PyTorch's own limit, of its build for Linux
MOST_GPUS = 120


@contextmanager
def virtual_gpus(
    count: int = 1,
    on_mismatch: str = "raise",
    *,
    gpu_memory: int | None = None,
    diagnoser: Any = None,
    session: Any = None,
    max_batches: int | None = None,
    exact: bool = False,
    folder: str | None = None,
) -> Iterator[Any]:
    """Run the block as on a machine with `count` GPUs.

    Numbers are the CPU's, bit for bit; devices, device errors and their words are CUDA's. On
    leaving, torch is as it was, to the attribute.

    Args:
        count: number of GPUs, at least 1.
        on_mismatch: "raise" raises PyTorch's own exception as CUDA would; "report" records the
            mismatch, puts the operand where it belongs virtually and goes on.
        gpu_memory: bytes of each GPU; 80 GiB unless given.
        diagnoser: told of each mismatch while it happens (see `samedevice.virtual.mismatches.Diagnoser`).
        session: where the run is recorded; a new `Session` unless given.
        exact: judge every ATen operation. It is the reference: the default finds the same and is faster,
            because it looks inside a function only when its tensors are not all in one place.
        max_batches: end each DataLoader's iteration after so many batches.
        folder: where this process leaves what it finds, for another that reports of all of them.

    Yields:
        the `Engine`: `.diagnostics()` are the mistakes found so far, each with its fix, with
        `on_mismatch="report"`; `.session` holds what was recorded, `.machine` the GPUs' state.

    Raises:
        UserError: torch is not installed, an argument makes no sense, or virtual GPUs are already on.
    """
    if count < 1:
        raise UserError(f"a machine needs at least one virtual GPU, not {count}")
    if count > MOST_GPUS:
        raise UserError(f"PyTorch can use {MOST_GPUS} GPUs of a machine, not {count}")
    if on_mismatch not in ("raise", "report"):
        raise UserError(f'on_mismatch is "raise" or "report", not {on_mismatch!r}')
    inherit.disarm()
    try:
        import torch  # noqa: F401
    except ImportError:
        raise UserError(MISSING_TORCH) from None
    from samedevice.virtual.activation import Activation, running

    if diagnoser is None and on_mismatch == "report":
        from samedevice.virtual.diagnose import Diagnoser

        diagnoser = Diagnoser()
    inherited = running()
    if inherited is not None and inherited.inherited:
        # A process of a program on virtual GPUs that makes its own has these.
        inherited.leave()
    machine = Machine(count=count, gpu_memory=80 * GIB if gpu_memory is None else gpu_memory)
    activation = Activation(machine, on_mismatch, diagnoser, session, max_batches, exact, folder)
    activation.enter()
    owner = os.getpid()
    try:
        yield activation.engine
    finally:
        if os.getpid() == owner:
            activation.leave()
