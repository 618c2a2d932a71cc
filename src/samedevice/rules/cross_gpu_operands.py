"""The rule `cross-gpu-operands`."""

from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Action, Scene
from samedevice.rules import mending
from samedevice.rules.questions import birth, device_of_others, is_mixed, short, story, wanted
from samedevice.rules.reading import follow_other, other_name, told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class CrossGpuOperands(Rule):
    """Checks for tensors that are put on one GPU and used with tensors of another.

    ## Why is this bad?
    In a program with several GPUs "the GPU" is not enough. Labels moved to `cuda:0` meet the output of a model
    whose last part is on `cuda:1`: with one GPU the same code works.

    ## Example
    ```python
    import torch

    body = torch.nn.Linear(4, 4).to("cuda:0")
    head = torch.nn.Linear(4, 3).to("cuda:1")
    x = torch.rand(2, 4).to("cuda:0")
    target = torch.tensor([0, 2]).to("cuda:0")
    output = head(body(x).to("cuda:1"))
    print(torch.nn.functional.cross_entropy(output, target).item())
    ```

    Use instead:
    ```python
    import torch

    body = torch.nn.Linear(4, 4).to("cuda:0")
    head = torch.nn.Linear(4, 3).to("cuda:1")
    x = torch.rand(2, 4).to("cuda:0")
    output = head(body(x).to("cuda:1"))
    target = torch.tensor([0, 2]).to(output.device)
    print(torch.nn.functional.cross_entropy(output, target).item())
    ```

    ## Fix safety
    Reading alone gives no fix. `check --fix` tries an unsafe one and keeps it when a run proves it.
    The tensor is needed on the device of its partner (`output.device`).
    """

    name = "cross-gpu-operands"
    group = "several GPUs"
    engines = ("check", "lint")
    specificity = 53
    lesson = "With several GPUs follow the partner's device (`y.to(output.device)`) instead of naming a GPU."

    def recognise(self, scene: Scene) -> Recognition | None:
        """The stray was put on its GPU by an explicit call."""
        culprit = scene.culprit
        if not is_mixed(scene) or culprit is None or culprit.placed is None or culprit.module is not None:
            return None
        if not culprit.device.startswith("cuda") or not (scene.wanted or "").startswith("cuda"):
            return None
        location = culprit.placed.location
        if location is None:
            return None
        stray = scene.stray_operand
        name = short(stray.shown if stray is not None else culprit.shown, 50)
        anchor = device_of_others(scene)
        verb = "moved to" if culprit.placed.action is Action.MOVED else "created on"
        return Recognition(
            message=f"`{name}` is {verb} {culprit.device}, but it is used with tensors on {wanted(scene)}",
            location=location,
            confidence=Confidence.LIKELY,
            evidence=story(scene, birth(culprit), (culprit.placed, f"{verb} {culprit.device} here")),
            help=f"Move it to {anchor or wanted(scene)}",
            suggestion=f"{name}.to({anchor})" if anchor and name.isidentifier() else None,
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        yield from mending.at_use(scene, sites)
        yield from mending.partner_to_stray(scene, sites)
        yield from mending.other_device(sites.at(found.location), scene.wanted)

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            f"`{meeting.stray}` is on {meeting.device} and meets `{meeting.other or 'the other operand'}` on {meeting.wanted}",
            help=f"Move one of them, here or where they meet: `.to({other_name(meeting)}.device)`",
            fix=follow_other(meeting),
        )
