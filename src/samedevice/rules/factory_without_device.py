"""The rule `factory-without-device`."""

from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence, Evidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Action, Scene, Step
from samedevice.rules import mending
from samedevice.rules.questions import (
    MADE,
    STATE,
    birth,
    device_of_others,
    is_mixed,
    replaced,
    short,
    story,
    wanted,
    with_device,
)
from samedevice.rules.reading import device_fix, told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class FactoryWithoutDevice(Rule):
    """Checks for tensors that are created without a device and used on a GPU.

    ## Why is this bad?
    `torch.zeros(...)`, `torch.arange(...)`, `torch.tensor(...)` and their kin create the tensor on the default
    device, the CPU, whatever device the code around them works on. `torch.from_numpy` always gives a CPU
    tensor, because numpy knows no other memory. The first operation that mixes it with a GPU tensor raises.

    ## Example
    ```python
    import torch

    class Positions(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(16, 4)

        def forward(self, x):
            return x + self.table(torch.arange(x.size(1)))

    model = Positions().to("cuda")
    print(model(torch.rand(2, 3, 4, device="cuda")).sum().item())
    ```

    Use instead:
    ```python
    import torch

    class Positions(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(16, 4)

        def forward(self, x):
            return x + self.table(torch.arange(x.size(1), device=x.device))

    model = Positions().to("cuda")
    print(model(torch.rand(2, 3, 4, device="cuda")).sum().item())
    ```

    ## Fix safety
    The fix is unsafe: it takes the device of a tensor at hand, and random numbers drawn on a GPU differ from
    those drawn on the CPU with the same seed.
    """

    name = "factory-without-device"
    group = "creation"
    engines = ("check", "lint")
    specificity = 40
    lesson = "A tensor is made on the CPU unless the call names a device: follow a tensor that is already right (`device=x.device`, `x.new_zeros`)."

    def recognise(self, scene: Scene) -> Recognition | None:
        """The stray's data was created by a call that named no device."""
        culprit, stray = scene.culprit, scene.stray_operand
        if not is_mixed(scene) or culprit is None or stray is None or culprit.device != "cpu":
            return None
        born = culprit.born
        if born is None or born.location is None or born.action not in MADE:
            return None
        if culprit.holder in STATE and not replaced(culprit, scene):
            return None
        placings = [s for s in culprit.provenance if s.action is not Action.DERIVED]
        if born.explicit_device or (placings and placings[-1].action is Action.MOVED):
            return None
        anchor = scene.anchor or device_of_others(scene)
        if born.package is not None:
            return _in_package(born, born.package, scene, birth(culprit))
        what = short(born.expression or born.function)
        from_numpy = born.action is Action.FROM_NUMPY
        reason = (
            "takes its data from numpy and gives a tensor on cpu"
            if from_numpy
            else "names no device and creates its tensor on cpu"
        )
        return Recognition(
            message=f"`{what}` {reason}, but it is used on {wanted(scene)}",
            location=born.location,
            confidence=Confidence.CERTAIN if born.function_name != "<module>" else Confidence.LIKELY,
            evidence=story(scene, birth(culprit)),
            help=f"Create it on {wanted(scene)}"
            + (f": `device={anchor}`" if anchor and not from_numpy else ""),
            suggestion=with_device(born.expression, anchor or "device"),
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        born = None if scene.culprit is None else scene.culprit.born
        if born is None or born.package is None:
            yield from mending.on_device(sites.at(found.location), scene.wanted)
        yield from mending.at_use(scene, sites)

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        made = meeting.born.what.partition(":")[2] if meeting.born is not None else "it"
        return told(
            meeting,
            f"`{made}` makes a tensor on cpu, and it meets `{meeting.other or 'a tensor'}` on {meeting.wanted}",
            help=f"Create it on {meeting.anchor}"
            if meeting.anchor
            else f"Create it on the device of what it meets, {meeting.wanted}",
            fix=device_fix(meeting),
        )


def _in_package(born: Step, package: str, scene: Scene, evidence: Evidence | None) -> Recognition | None:
    """A package made it, on the way from the user's line: that line cannot name a device for it."""
    if born.location is None:
        return None
    line = None if born.inside is None else Evidence(born.inside, f"`{born.function}` in {package}")
    return Recognition(
        message=f"`{short(born.expression or born.function)}` makes a tensor on cpu, as `{born.function}` in {package} names no device, but it is used on {wanted(scene)}",
        location=born.location,
        confidence=Confidence.LIKELY,
        evidence=story(scene, evidence, line),
        help=f"Give {package} what it takes the device from, or move what it makes to {wanted(scene)}",
    )
