"""The rule `device-mismatch`."""

from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Holder, Scene
from samedevice.rules import mending
from samedevice.rules.questions import birth, called, device_of_others, moved, place, short, story, wanted
from samedevice.rules.reading import told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class DeviceMismatch(Rule):
    """Checks for calls that mix devices, where no other rule knows the cause.

    ## Why is this bad?
    PyTorch never copies between devices behind the program's back: a call with tensors on different devices
    raises. This rule reports the mismatches that fit no more specific rule, at the place where the tensor out of
    place was made or was moved last.

    ## Example
    ```python
    import torch

    places = {"weights": "cuda", "bias": "cpu"}
    x = torch.rand(3, device=places["weights"])
    print((x + torch.ones(3, device=places["bias"])).sum().item())
    ```

    Use instead:
    ```python
    import torch

    places = {"weights": "cuda", "bias": "cpu"}
    x = torch.rand(3, device=places["weights"])
    print((x + torch.ones(3, device=x.device)).sum().item())
    ```

    ## Fix safety
    Reading alone gives no fix. `check --fix` tries an unsafe one and keeps it when a run proves it.
    """

    name = "device-mismatch"
    group = "data flow"
    engines = ("check", "lint")
    specificity = 0
    lesson = "All tensors of one operation are on one device; only CPU scalars (tensors without dimensions) may join in."

    def recognise(self, scene: Scene) -> Recognition | None:
        """Everything; nothing is claimed that is not seen."""
        culprit, stray = scene.culprit, scene.stray_operand
        if culprit is None or stray is None:
            return Recognition(
                message=f"`{short(scene.operator)}` is refused: {scene.message.splitlines()[0] if scene.message else scene.exception}",
                location=scene.raised,
                confidence=Confidence.POSSIBLE,
                evidence=story(scene),
            )
        location = place(
            culprit.placed, culprit.kept if culprit.holder is Holder.ATTRIBUTE else None, culprit.born
        )
        anchor = device_of_others(scene)
        return Recognition(
            message=f"`{short(called(culprit, scene))}` is on {culprit.device}, but it is used with tensors on {wanted(scene)}",
            location=location or scene.raised,
            confidence=Confidence.POSSIBLE,
            evidence=story(scene, birth(culprit), (culprit.placed, f"put on {culprit.device} here")),
            help=f"Bring it to {wanted(scene)} before it is used",
            suggestion=moved(stray.expression, anchor),
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        yield from mending.on_device(sites.at(found.location), scene.wanted)
        yield from mending.other_device(sites.at(found.location), scene.wanted)
        yield from mending.at_use(scene, sites)

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            f"`{meeting.stray}` is on {meeting.device} and `{meeting.other or 'the other operand'}` on {meeting.wanted}",
            help="Put both on one device",
        )
