"""The rule `hardcoded-device`."""

from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Scene
from samedevice.rules import mending
from samedevice.rules.questions import birth, called, is_mixed, place, short, story, wanted
from samedevice.rules.reading import told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class HardcodedDevice(Rule):
    """Checks for tensors and modules that are put on a fixed device while the rest of the call is elsewhere.

    ## Why is this bad?
    A literal `"cpu"`, `"cuda:0"` or `.cuda(1)` is right on one machine and for one caller. The code around it
    follows another device sooner or later, and the two meet.

    ## Example
    ```python
    import torch

    def bias(n):
        return torch.zeros(n, device="cpu")

    x = torch.rand(3, 4, device="cuda")
    print((x + bias(4)).sum().item())
    ```

    Use instead:
    ```python
    import torch

    def bias(x):
        return torch.zeros(x.size(-1), device=x.device)

    x = torch.rand(3, 4, device="cuda")
    print((x + bias(x)).sum().item())
    ```

    ## Fix safety
    Reading alone gives no fix. `check --fix` tries an unsafe one and keeps it when a run proves it.
    Which device is meant is for the author to say.
    """

    name = "hardcoded-device"
    group = "creation"
    engines = ("check", "lint")
    specificity = 44
    lesson = "Name a device once, at the top of the program; everywhere else follow the tensors (`x.device`) or a parameter."

    def recognise(self, scene: Scene) -> Recognition | None:
        """The stray was placed explicitly, and a literal decided where."""
        culprit = scene.culprit
        if not is_mixed(scene) or culprit is None:
            return None
        decision = culprit.decision
        if decision is None or decision.how not in ("literal", "global", "choice", "option"):
            return None
        name = called(culprit, scene)
        return Recognition(
            message=f"`{short(decision.expression, 40)}` puts `{name}` on {culprit.device}, but it is used on {wanted(scene)}",
            location=decision.location,
            confidence=Confidence.LIKELY,
            evidence=story(scene, birth(culprit), (culprit.placed, f"placed on {culprit.device} here")),
            help=f"Follow a tensor that is already on {wanted(scene)}",
            suggestion=f"{scene.anchor}" if scene.anchor else None,
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        culprit = scene.culprit
        yield from mending.other_device(sites.at(found.location), scene.wanted)
        if culprit is not None:
            yield from mending.other_device(sites.at(place(culprit.placed)), scene.wanted)
        yield from mending.at_use(scene, sites)
        yield from mending.partner_to_stray(scene, sites)

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            f"{meeting.device} is named here, and `{meeting.stray}` meets {meeting.wanted} later",
            help="Follow the device of the tensor that it meets",
        )
