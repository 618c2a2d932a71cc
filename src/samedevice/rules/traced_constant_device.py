"""The rule `traced-constant-device`."""

from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Scene, Step
from samedevice.rules import mending_modules
from samedevice.rules.questions import story, wanted
from samedevice.rules.reading import told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class TracedConstantDevice(Rule):
    """Checks for traced models that are moved to another device than they were traced on.

    ## Why is this bad?
    `torch.jit.trace` records what ran, with the devices of that run as constants: `torch.arange(n,
    device=x.device)` becomes "arange on cpu". `traced.to("cuda")` moves the parameters and not the
    constants of the graph.

    ## Example
    ```python
    import torch

    class Ramp(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x):
            return self.linear(x) + torch.arange(4, dtype=torch.float32, device=x.device)

    traced = torch.jit.trace(Ramp(), torch.rand(2, 4))
    traced = traced.to("cuda")
    print(traced(torch.rand(2, 4, device="cuda")).sum().item())
    ```

    Use instead:
    ```python
    import torch

    class Ramp(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x):
            return self.linear(x) + torch.arange(4, dtype=torch.float32, device=x.device)

    traced = torch.jit.trace(Ramp().to("cuda"), torch.rand(2, 4, device="cuda"))
    print(traced(torch.rand(2, 4, device="cuda")).sum().item())
    ```

    ## Fix safety
    Reading alone gives no fix. `check --fix` tries an unsafe one and keeps it when a run proves it.
    Trace on the device where the model will run, or script the model.
    """

    name = "traced-constant-device"
    group = "creation"
    engines = ("check", "lint")
    specificity = 97
    lesson = "A trace freezes devices as constants: trace on the device where the model will run."

    def recognise(self, scene: Scene) -> Recognition | None:
        """The failing operation belongs to a TorchScript graph."""
        if not scene.extra.get("traced") or scene.culprit is None:
            return None
        traced = scene.extra.get("traced_at")
        step = traced if isinstance(traced, Step) else None
        location = step.location if step is not None and step.location is not None else scene.raised
        return Recognition(
            message=f"the graph was traced on {scene.culprit.device} and has that device as a constant; moving it to {wanted(scene)} does not change it",
            location=location,
            confidence=Confidence.CERTAIN if step is not None else Confidence.LIKELY,
            evidence=story(scene, (step, f"traced here, with example inputs on {scene.culprit.device}")),
            help=f"Move the model and the example to {wanted(scene)} before tracing",
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        yield from mending_modules.before_tracing(sites.at(found.location), scene.wanted)

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            f"the trace bakes in the devices of the example; moving it to {meeting.wanted} leaves them on cpu",
            help="Move the model and the example before tracing, or script the model",
        )
