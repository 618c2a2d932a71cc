"""Where the program, or a tool that it called, hung a hook on a module."""

import functools
from typing import TYPE_CHECKING, Any, Final

import torch

from samedevice.virtual.patches import Patches
from samedevice.virtual.places import here
from samedevice.virtual.provenance import Happened, reference

if TYPE_CHECKING:
    from samedevice.virtual.engine import Engine

#: registrations that are remembered; libraries that collect outputs register hooks in every call
MOST: Final = 2_000
EVENT: Final = "hook-registered"


def install(patches: Patches, engine: "Engine") -> None:
    """Remember the line on which each hook was registered."""
    left = MOST

    def watched(register: Any) -> Any:
        @functools.wraps(register)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            nonlocal left
            handle = register(self, *args, **kwargs)
            if left and engine.active:
                left -= 1
                engine.session.record(Happened(EVENT, here(2), reference(self), {"number": handle.id}))
            return handle

        return call

    module = torch.nn.Module
    for name in ("register_forward_hook", "register_forward_pre_hook"):
        patches.set(module, name, watched(getattr(module, name)))
