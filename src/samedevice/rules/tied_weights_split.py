"""The rule `tied-weights-split`."""

from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Scene
from samedevice.rules import mending
from samedevice.rules.questions import birth, is_mixed, story, wanted
from samedevice.rules.reading import told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class TiedWeightsSplit(Rule):
    """Checks for modules that share a parameter and are moved to different GPUs.

    ## Why is this bad?
    Tied modules (an embedding and the output head) hold one Parameter object. Moving the second of them moves the
    parameter of the first along: it leaves the GPU where the first one is used.

    ## Example
    ```python
    import torch

    embed = torch.nn.Embedding(8, 4)
    head = torch.nn.Linear(4, 8, bias=False)
    head.weight = embed.weight
    embed.to("cuda:0")
    head.to("cuda:1")
    ids = torch.tensor([1, 2], device="cuda:0")
    print(head(embed(ids).to("cuda:1")).sum().item())
    ```

    Use instead:
    ```python
    import torch

    embed = torch.nn.Embedding(8, 4)
    head = torch.nn.Linear(4, 8, bias=False)
    head.weight = embed.weight
    embed.to("cuda:0")
    head.to("cuda:0")
    ids = torch.tensor([1, 2], device="cuda:0")
    print(head(embed(ids)).sum().item())
    ```

    ## Fix safety
    Reading alone gives no fix. `check --fix` tries an unsafe one and keeps it when a run proves it.
    Keep tied modules on one GPU.
    """

    name = "tied-weights-split"
    group = "several GPUs"
    engines = ("check", "lint")
    specificity = 92
    lesson = "Tied modules share one parameter, and it can be in one place only: put them on the same GPU."

    def recognise(self, scene: Scene) -> Recognition | None:
        """The parameter belongs to several modules, and another one of them moved it."""
        if not is_mixed(scene):
            return None
        for operand in scene.operands:
            origin = operand.origin
            moved = origin.provenance[-1] if origin.provenance else None
            if (
                len(origin.shared) < 2
                or moved is None
                or moved.location is None
                or len(origin.provenance) < 2
            ):
                continue
            before = origin.provenance[-2].device
            if before is None or before == origin.device or not str(before).startswith("cuda"):
                continue
            names = " and ".join(f"`{p}`" for p in origin.shared[:2])
            return Recognition(
                message=f"{names} are one parameter: this move takes it to {origin.device}, away from {before} where it is used",
                location=moved.location,
                confidence=Confidence.CERTAIN,
                evidence=story(
                    scene,
                    birth(origin),
                    (origin.provenance[-2], f"moved to {before} here"),
                    (moved, f"moved on to {origin.device} here, under its other name"),
                ),
                help=f"Keep the tied modules on one GPU, {before} or {wanted(scene)}",
            )
        return None

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        for operand in scene.operands:
            before = operand.origin.provenance[-2:-1]
            if len(operand.origin.shared) > 1 and before:
                yield from mending.other_device(
                    sites.at(found.location), before[0].device, mending.named_in(sites.at(before[0].location))
                )

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            f"this also moves `{meeting.name}` of another module, with which it shares the parameter, to another GPU",
            help="Keep modules that share a parameter on one device",
        )
