"""What happens at a mismatch: who is told of it, and how it is stepped over."""

import os
import sys
from types import FrameType
from typing import TYPE_CHECKING, Final, Protocol

import torch

from samedevice.model.diagnostic import Diagnostic
from samedevice.virtual.refusal import Refusal

if TYPE_CHECKING:
    from samedevice.virtual.engine import Engine

_in_backward: Final = torch._C._current_graph_task_id


class Diagnoser(Protocol):
    """Who is told of mismatches while everything is still alive."""

    def mismatch(self, refusal: Refusal, frame: FrameType, engine: "Engine") -> "Settlement | None":
        """Called at the moment of a refusal; says how to step over it, None for the default."""

    def diagnostics(self) -> list[Diagnostic]:
        """The mistakes found so far."""


class Settlement:
    """How a mismatch is stepped over: where the result goes, which tensors move for good."""

    __slots__ = ("device", "keep")

    def __init__(self, device: int | None = None, keep: "tuple[torch.Tensor, ...]" = ()) -> None:
        self.device = device
        self.keep = keep


def tell(engine: "Engine", diagnoser: Diagnoser, refusal: Refusal, frame: FrameType) -> Settlement | None:
    """Tell the diagnoser; a fault of ours is said and never becomes the program's."""
    with engine.undisturbed():
        try:
            return diagnoser.mismatch(refusal, frame, engine)
        except Exception as fault:
            if os.environ.get("SAMEDEVICE_DEBUG"):
                raise
            engine.session.note(
                f"a mismatch could not be explained ({type(fault).__name__}: {fault}); "
                f"PyTorch's words: {refusal.message}"
            )
            return None


def is_consequence() -> bool:
    """In C++'s part of a backward pass after a mismatch was stepped over.

    What was put in place virtually in the forward pass meets its gradient again there; that is
    the same mistake. A mismatch in the user's own backward code is one of its own.
    """
    if _in_backward() == -1:
        return False
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_name
        if name == "_engine_run_backward":
            return True
        if frame.f_globals.get("__name__") == "samedevice.virtual.hooks":
            return False  # what a hook returns is its own doing
        if name == "apply" and frame.f_code.co_filename.endswith("function.py"):
            return False
        frame = frame.f_back
    return False


def frame_of_program() -> FrameType:
    """The innermost frame that is not samedevice's own."""
    frame = sys._getframe(2)
    package = __name__.rpartition(".")[0]
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith(package):
        frame = frame.f_back
    return frame
