"""The rule `accumulator-on-cpu`."""

from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Holder, Scene
from samedevice.rules import mending
from samedevice.rules.questions import MADE, birth, is_mixed, short, story, wanted, with_device
from samedevice.rules.reading import device_fix, told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class AccumulatorOnCpu(Rule):
    """Checks for accumulators that are created on the CPU and updated with GPU tensors.

    ## Why is this bad?
    A confusion matrix, a running sum or a result buffer is made before the loop, without a device; the loop adds
    GPU tensors to it. In evaluation code this raises after a whole epoch of training.

    ## Example
    ```python
    import torch

    total = torch.zeros(4)
    for _ in range(3):
        total += torch.rand(4, device="cuda")
    print(total.sum().item())
    ```

    Use instead:
    ```python
    import torch

    total = torch.zeros(4, device="cuda")
    for _ in range(3):
        total += torch.rand(4, device="cuda")
    print(total.sum().item())
    ```

    ## Fix safety
    The fix is unsafe: code behind the loop that takes the accumulator to numpy needs a `.cpu()`.
    """

    name = "accumulator-on-cpu"
    group = "creation"
    engines = ("check", "lint")
    specificity = 57
    lesson = "What a loop accumulates is made where the loop's tensors are, or the loop adds `.cpu()` copies."

    def recognise(self, scene: Scene) -> Recognition | None:
        """A local tensor made by a factory, updated in place with GPU tensors."""
        culprit, stray = scene.culprit, scene.stray_operand
        if not is_mixed(scene) or culprit is None or stray is None or culprit.device != "cpu":
            return None
        born = culprit.born
        if (
            culprit is not stray
            or scene.operands[0] is not stray  # what is added, not what it is added to
            or culprit.holder not in (Holder.LOCAL, Holder.GLOBAL)
            or not _in_place(scene)
        ):
            return None
        if born is None or born.location is None or born.action not in MADE or born.explicit_device:
            return None
        name = short(culprit.path or culprit.shown)
        return Recognition(
            message=f"`{name}` is created on cpu and accumulates tensors on {wanted(scene)}",
            location=born.location,
            confidence=Confidence.CERTAIN,
            evidence=story(scene, birth(culprit)),
            help=f"Create `{name}` on {wanted(scene)}, or add `.cpu()` copies to it",
            suggestion=with_device(born.expression, scene.anchor or "device"),
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        yield from mending.on_device(sites.at(found.location), scene.wanted)
        yield from mending.at_use(scene, sites)

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            f"`{meeting.stray}` accumulates on cpu what is computed on {meeting.wanted}: it is created without a device",
            help=f"Create it on {meeting.wanted}",
            fix=device_fix(meeting),
        )


def _in_place(scene: Scene) -> bool:
    operator = scene.operator
    method = operator.rpartition(".")[2]
    return operator.endswith("=") or (method.endswith("_") and not method.startswith("_"))
