"""A `ToolHook`: what hangs on a module and moves tensors, as far as it has to do with a mismatch."""

from dataclasses import dataclass
from enum import StrEnum

from samedevice.model.scene import Step


class Part(StrEnum):
    """What the hook has to do with the mismatch."""

    BYPASSED = "bypassed"  # a weight that the hook looks after was used while the hook did not run
    OUTLIVED = "outlived"  # it ran, but its module has been moved since
    MOVED = "moved"  # it put the tensor where it is
    GAVE_BACK = "gave-back"  # it brought the module's outputs back to where the inputs were
    INSIDE = "inside"  # the call that is refused is in the hook's own code


@dataclass(frozen=True, slots=True)
class ToolHook:
    """A hook on a module.

    Attributes:
        part: what it has to do with the mismatch.
        module: path of the module ("model.head").
        name: class or function of the hook ("AlignDevicesHook", "collect").
        tool: the installed package that it comes from, None for the program's own.
        weight: the parameter or buffer concerned ("model.head.weight").
        device: where the hook brings the module's inputs, and its weights for the time of a call.
        offloads: the weights are elsewhere, or nowhere, between calls.
        spread: the module was moved as the whole that the tool had spread over devices.
        attached: the program's line that hung it there.
        moved: the move of the module after that.
        operand: which operand of the call is concerned.
    """

    part: Part
    module: str
    name: str
    tool: str | None = None
    weight: str | None = None
    device: str | None = None
    offloads: bool = False
    spread: bool = False
    attached: Step | None = None
    moved: Step | None = None
    operand: int | None = None

    @property
    def maker(self) -> str:
        """What the reader knows it by: its package, for the program's own its name."""
        return self.tool or self.name
