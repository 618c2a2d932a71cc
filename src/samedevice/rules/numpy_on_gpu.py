"""The rule `numpy-on-gpu`."""

import re
from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Kind, Scene
from samedevice.rules import mending
from samedevice.rules.questions import arrival, short, story
from samedevice.rules.reading import call_fix, told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class NumpyOnGpu(Rule):
    """Checks for GPU tensors handed to numpy.

    ## Why is this bad?
    numpy works in host memory only. `tensor.numpy()`, `np.asarray(tensor)` and every numpy or plotting function that
    is given a tensor work on the CPU and raise on a GPU; there is no silent copy.

    ## Example
    ```python
    import torch

    scores = torch.rand(3, device="cuda")
    print(scores.numpy().shape)
    ```

    Use instead:
    ```python
    import torch

    scores = torch.rand(3, device="cuda")
    print(scores.cpu().numpy().shape)
    ```

    ## Fix safety
    The fix is safe: `.cpu()` returns the tensor itself when it is on the CPU already.
    """

    name = "numpy-on-gpu"
    group = "host-only"
    engines = ("check", "lint")
    specificity = 90
    lesson = "numpy sees host memory only: `.cpu()` (and `.detach()` if gradients are recorded) comes before `.numpy()`."

    def recognise(self, scene: Scene) -> Recognition | None:
        """numpy was given a GPU tensor."""
        if scene.kind is not Kind.HOST_ONLY or scene.extra.get("family") != "numpy":
            return None
        operand = scene.stray_operand
        call = str(scene.extra.get("call", ""))
        name = (
            re.sub(r"\.numpy\(\)$", "", call)
            if call.endswith(".numpy()")
            else (operand.expression if operand else None)
        )
        what = short(name or "the tensor")
        on = operand.device if operand is not None else "the GPU"
        return Recognition(
            message=f"`{what}` is on {on}, and numpy reads host memory only",
            location=scene.raised,
            confidence=Confidence.CERTAIN,
            evidence=story(scene, arrival(operand) if operand is not None else None),
            help="Copy it to the host first",
            suggestion=f"{name}.cpu().numpy()"
            if call.endswith(".numpy()")
            else (f"{name}.cpu()" if name else None),
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        operand = scene.stray_operand
        call = str(scene.extra.get("call", ""))
        name = call.removesuffix(".numpy()") if call.endswith(".numpy()") else None
        yield from mending.to_host(
            scene, sites, name or (operand.expression if operand else None), "Copy it to the host first"
        )

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            f"`{meeting.stray}` is on {meeting.device}; numpy works on host memory only",
            help="Take it to the CPU first: `.cpu()`",
            fix=call_fix(meeting, meeting.stray, ".cpu()", "Take it to the CPU first"),
        )
