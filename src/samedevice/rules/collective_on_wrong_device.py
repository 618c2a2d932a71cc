"""The rule `collective-on-wrong-device`."""

from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Kind, Scene
from samedevice.rules import mending
from samedevice.rules.questions import birth, moved, short, story, wanted
from samedevice.rules.reading import told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class CollectiveOnWrongDevice(Rule):
    """Checks for collectives (`all_reduce`, `broadcast`, `gather`) given tensors on the wrong device.

    ## Why is this bad?
    NCCL moves data between GPUs and knows no other memory: a CPU tensor given to `all_reduce` raises "No backend type
    associated with device type cpu". With the gloo backend, as on a laptop, the same call works. A tensor
    on another rank's GPU makes two processes wait for each other.

    ## Example
    ```python
    # run with torchrun and two GPUs
    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl")
    loss = torch.tensor(0.5)
    dist.all_reduce(loss)
    ```

    Use instead:
    ```python
    # run with torchrun and two GPUs
    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl")
    device = torch.device("cuda", dist.get_rank() % torch.cuda.device_count())
    loss = torch.tensor(0.5, device=device)
    dist.all_reduce(loss)
    ```

    ## Fix safety
    Reading alone gives no fix. `check --fix` tries an unsafe one and keeps it when a run proves it.
    The tensor belongs on the GPU of its rank.
    """

    name = "collective-on-wrong-device"
    group = "several GPUs"
    engines = ("check", "lint")
    specificity = 90
    lesson = "NCCL's collectives take GPU tensors, each on its own rank's GPU: keep host values out of them or move them first."

    def recognise(self, scene: Scene) -> Recognition | None:
        """A collective's own refusal."""
        if scene.kind is not Kind.COLLECTIVE:
            return None
        operand = scene.stray_operand or (scene.operands[0] if scene.operands else None)
        name = short(operand.shown) if operand is not None else "the tensor"
        on = operand.device if operand is not None else "the wrong device"
        return Recognition(
            message=f"`{name}` is on {on}, but `{scene.operator}` needs it on its rank's GPU",
            location=scene.raised,
            confidence=Confidence.CERTAIN,
            evidence=story(scene, birth(operand) if operand is not None else None),
            help=f"Move it to {wanted(scene)} before the call",
            suggestion=moved(operand.expression if operand is not None else None, "device"),
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        yield from mending.at_use(scene, sites)

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            f"`{meeting.operator}` gets `{meeting.stray}` on cpu, but NCCL works on GPU tensors only",
            help="Move it to the process's own GPU",
        )
