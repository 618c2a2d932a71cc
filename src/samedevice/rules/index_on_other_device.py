"""The rule `index-on-other-device`."""

from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Action, Kind, Scene
from samedevice.rules import mending
from samedevice.rules.questions import (
    MADE,
    birth,
    called,
    device_of_others,
    short,
    story,
    wanted,
    with_device,
)
from samedevice.rules.reading import table_fix, told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class IndexOnOtherDevice(Rule):
    """Checks for CPU tensors that are indexed with GPU tensors.

    ## Why is this bad?
    A GPU tensor takes indices from the CPU as well, but a CPU tensor takes CPU indices only. The table is
    usually what is out of place: it was made once on the CPU, and the indices come from the model.
    Moving the *result* afterwards comes too late.

    ## Example
    ```python
    import torch

    table = torch.linspace(0, 1, 10)
    steps = torch.randint(0, 10, (4,), device="cuda")
    print(table[steps].to("cuda").sum().item())
    ```

    Use instead:
    ```python
    import torch

    table = torch.linspace(0, 1, 10)
    steps = torch.randint(0, 10, (4,), device="cuda")
    print(table.to("cuda")[steps].sum().item())
    ```

    ## Fix safety
    The fix is unsafe: it moves the whole table; where it is large and the indices are few, move the
    indices instead (`table[steps.cpu()]`).
    """

    name = "index-on-other-device"
    group = "creation"
    engines = ("check", "lint")
    specificity = 61
    lesson = "`cpu_table[gpu_index]` raises, `gpu_table[cpu_index]` works: the table has to be where the indices are."

    def recognise(self, scene: Scene) -> Recognition | None:
        """Indexing that is moved too late, or into a table that was created on the CPU."""
        culprit = scene.culprit
        if scene.kind is not Kind.INDEX or culprit is None or culprit.device != "cpu":
            return None
        moved_after = scene.extra.get("moved_after")
        if isinstance(moved_after, str):
            return Recognition(
                message=f"`{short(moved_after)}` moves the result, but the indexing itself needs the table on {wanted(scene)}",
                location=scene.raised,
                confidence=Confidence.CERTAIN,
                evidence=story(scene, birth(culprit)),
                help="Move the table first, then index it",
                suggestion=str(scene.extra.get("moved_before")),
            )
        born = culprit.born
        if born is None or born.location is None or born.action not in MADE or born.explicit_device:
            return None
        if (
            culprit.holder_is_module
            or culprit.module is not None
            or (culprit.entry is not None and culprit.entry.loader)
        ):
            return None
        if culprit.provenance[-1].action is Action.MOVED:
            return None
        anchor = scene.anchor or device_of_others(scene)
        return Recognition(
            message=f"`{called(culprit, scene)}` is created on cpu and indexed with a tensor on {wanted(scene)}",
            location=born.location,
            confidence=Confidence.CERTAIN,
            evidence=story(scene, birth(culprit)),
            help=f"Create it on {wanted(scene)}, where its indices are",
            suggestion=with_device(born.expression, anchor or "device"),
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        before = scene.extra.get("moved_before")
        if isinstance(before, str):
            yield from mending.moved_first(sites.at(found.location), before)
        yield from mending.on_device(sites.at(found.location), scene.wanted)
        yield from mending.at_use(scene, sites)

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            f"`{meeting.stray}` is on cpu and is indexed with `{meeting.other}` on {meeting.wanted}; only the reverse is allowed",
            help="Move the table before it is indexed, or index it on cpu",
            fix=table_fix(meeting),
        )
