"""States of random number generators: bytes on the host, also those of a GPU's generator."""

import functools
from typing import Any

import torch

from samedevice.virtual.patches import Patches
from samedevice.virtual.refusal import Refusal
from samedevice.virtual.surface.generators import Generator
from samedevice.virtual.tags import CPU, device_index


def install(patches: Patches, engine: Any) -> None:
    """Refuse a state that came back on a GPU, from a checkpoint loaded onto it for instance."""

    def checked(real: Any, position: int) -> Any:
        @functools.wraps(real)
        def call(*args: Any, **kwargs: Any) -> Any:
            state = args[position] if len(args) > position else kwargs.get("new_state")
            if engine.active and isinstance(state, torch.Tensor):
                with torch._C.DisableTorchFunction():
                    index = device_index(state)
                    if index >= 0:
                        message = "RNG state must be a torch.ByteTensor"
                        operands = (("new_state", state, index),)
                        engine.refuse(Refusal(TypeError, message, "rng-state", operands, CPU, 0))
                        state = state.clone()
                        if len(args) > position:
                            args = (*args[:position], state, *args[position + 1 :])
                        else:
                            kwargs = {**kwargs, "new_state": state}
            return real(*args, **kwargs)

        return call

    for module in (torch, torch.random, torch.cuda, torch.cuda.random):
        patches.set(module, "set_rng_state", checked(module.set_rng_state, 0))
    patches.set(Generator, "set_state", checked(Generator.set_state, 1))
