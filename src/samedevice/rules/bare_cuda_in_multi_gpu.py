"""The rule `bare-cuda-in-multi-gpu`."""

from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Scene
from samedevice.rules import mending
from samedevice.rules.questions import birth, device_of_others, is_mixed, moved, short, story, wanted
from samedevice.rules.reading import told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class BareCudaInMultiGpu(Rule):
    """Checks for `.cuda()` and `"cuda"` without an index in programs that work on another GPU.

    ## Why is this bad?
    `.cuda()` and `device="cuda"` mean the *current* GPU, which is number 0 until somebody calls
    `torch.cuda.set_device`. In a process or a module that works on `cuda:1` they put tensors on the wrong GPU.

    ## Example
    ```python
    import torch

    model = torch.nn.Linear(4, 2).to("cuda:1")
    x = torch.rand(3, 4).cuda()
    print(model(x).sum().item())
    ```

    Use instead:
    ```python
    import torch

    model = torch.nn.Linear(4, 2).to("cuda:1")
    x = torch.rand(3, 4).to(next(model.parameters()).device)
    print(model(x).sum().item())
    ```

    ## Fix safety
    Reading alone gives no fix. `check --fix` tries an unsafe one and keeps it when a run proves it.
    Follow a device that is right, or set the current GPU once per process.
    """

    name = "bare-cuda-in-multi-gpu"
    group = "several GPUs"
    engines = ("check", "lint")
    specificity = 67
    lesson = "`cuda` without an index is the current GPU, usually 0: with several GPUs follow a tensor or call `torch.cuda.set_device` first."

    def recognise(self, scene: Scene) -> Recognition | None:
        """The stray was put on a GPU by a call that named none."""
        culprit = scene.culprit
        if not is_mixed(scene) or culprit is None or culprit.placed is None or culprit.decision is None:
            return None
        if (
            culprit.module is not None
            or not culprit.device.startswith("cuda")
            or not (scene.wanted or "").startswith("cuda")
        ):
            return None
        written = culprit.decision.expression
        bare = written.endswith((".cuda()", '"cuda"', "'cuda'")) or written in ('"cuda"', "'cuda'")
        location = culprit.placed.location
        if not bare or location is None:
            return None
        name = short(scene.stray_operand.shown if scene.stray_operand else culprit.shown, 50)
        return Recognition(
            message=f"`{short(culprit.placed.expression or written)}` means the current GPU, {culprit.device}, but `{name}` is used on {wanted(scene)}",
            location=location,
            confidence=Confidence.CERTAIN,
            evidence=story(scene, birth(culprit)),
            help=f"Name the device: follow a tensor on {wanted(scene)}",
            suggestion=moved(name, device_of_others(scene) or scene.anchor),
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        yield from mending.at_use(scene, sites)
        yield from mending.other_device(sites.at(found.location), scene.wanted)

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            f"a bare `.cuda()` moves `{meeting.stray}` to the current GPU, but it meets {meeting.wanted}",
            help="Name the device, or follow the tensor that it meets",
        )
