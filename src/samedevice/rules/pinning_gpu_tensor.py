"""The rule `pinning-gpu-tensor`."""

import re
from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Kind, Scene, Step
from samedevice.rules import mending
from samedevice.rules.questions import arrival, story
from samedevice.rules.reading import drop_pinning, told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class PinningGpuTensor(Rule):
    """Checks for GPU tensors that are to be pinned, as by a DataLoader over a data set on the GPU.

    ## Why is this bad?
    Pinning page-locks *host* memory, so that copies to the GPU are fast. Data that is on the GPU already cannot be
    pinned: a loader with `pin_memory=True` over a data set that hands out GPU tensors raises at the first batch.

    ## Example
    ```python
    import torch
    from torch.utils.data import DataLoader

    data = torch.rand(8, 4).to("cuda")
    for batch in DataLoader(data, batch_size=4, pin_memory=True):
        print(batch.sum().item())
    ```

    Use instead:
    ```python
    import torch
    from torch.utils.data import DataLoader

    data = torch.rand(8, 4).to("cuda")
    for batch in DataLoader(data, batch_size=4):
        print(batch.sum().item())
    ```

    ## Fix safety
    The fix is unsafe: dropping `pin_memory` is right when the data stays on the GPU; otherwise the data
    set should hand out CPU tensors.
    """

    name = "pinning-gpu-tensor"
    group = "host-only"
    engines = ("check", "lint")
    specificity = 90
    lesson = "Only host memory can be pinned: either the data set lives on the GPU, or the loader pins."

    def recognise(self, scene: Scene) -> Recognition | None:
        """`pin_memory` of a GPU tensor, by the program or by a loader."""
        if scene.kind is not Kind.PIN:
            return None
        operand = scene.stray_operand
        loader = scene.extra.get("loader_made")
        step = loader if isinstance(loader, Step) else None
        on = operand.device if operand is not None else "the GPU"
        inside = "in_loader" in scene.extra
        what = (
            "the DataLoader pins its batches, but its data set hands out tensors"
            if inside
            else "only host memory can be pinned, but this tensor is"
        )
        return Recognition(
            message=f"{what} on {on}",
            location=step.location if step is not None and step.location is not None else scene.raised,
            confidence=Confidence.CERTAIN,
            evidence=story(
                scene,
                arrival(operand) if operand is not None else None,
                (step, "the loader is made here with `pin_memory=True`"),
            ),
            help="Drop `pin_memory=True`, or let the data set hand out CPU tensors"
            if inside
            else "Pin before the move to the GPU, or not at all",
            suggestion=_without_pinning(step),
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        yield from mending.without_pinning(scene, sites.at(found.location), sites)

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            f"only host memory can be pinned, and these tensors are on {meeting.device}",
            help="Leave out `pin_memory`, or keep the data on the CPU",
            fix=drop_pinning(meeting),
        )


def _without_pinning(step: Step | None) -> str | None:
    text = step.expression if step is not None else None
    if not text or "pin_memory=True" not in text:
        return None
    return re.sub(r",\s*pin_memory=True|pin_memory=True,\s*", "", text)
