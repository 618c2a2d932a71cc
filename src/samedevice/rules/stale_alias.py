"""The rule `stale-alias`."""

from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Holder, Scene
from samedevice.rules import mending
from samedevice.rules.questions import STATE, birth, called, is_mixed, place, story
from samedevice.rules.reading import told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class StaleAlias(Rule):
    """Checks for second references to a buffer that keep the old tensor after the module moves.

    ## Why is this bad?
    `Module.to` replaces a buffer by its moved copy: `self.taps` is another tensor afterwards. (Parameters are
    different, they keep their identity.) A list, a dictionary or a variable that was filled with
    the buffer before the move still holds the old tensor on the old device.

    ## Example
    ```python
    import torch

    class Bank(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("taps", torch.rand(4))
            self.filters = [self.taps]

        def forward(self, x):
            return sum(x * taps for taps in self.filters)

    model = Bank().to("cuda")
    print(model(torch.rand(3, 4, device="cuda")).sum().item())
    ```

    Use instead:
    ```python
    import torch

    class Bank(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("taps", torch.rand(4))
            self.filters = ["taps"]

        def forward(self, x):
            return sum(x * getattr(self, name) for name in self.filters)

    model = Bank().to("cuda")
    print(model(torch.rand(3, 4, device="cuda")).sum().item())
    ```

    ## Fix safety
    Reading alone gives no fix. `check --fix` tries an unsafe one and keeps it when a run proves it.
    Keep the buffers' names, or look the buffers up when they are used.
    """

    name = "stale-alias"
    group = "out of Module.to's reach"
    engines = ("check", "lint")
    specificity = 80
    lesson = "Moving a module replaces its buffers: keep a buffer's name, not the tensor, and look it up when it is used."

    def recognise(self, scene: Scene) -> Recognition | None:
        """The same data lives on as a moved buffer or parameter of a module."""
        culprit = scene.culprit
        if not is_mixed(scene) or culprit is None or culprit.holder in (*STATE, Holder.OPTIMIZER_STATE):
            return None
        alias = next((r for r in culprit.relatives if r.same_data and r.holder in STATE), None)
        if alias is None or alias.device == culprit.device:
            return None
        entry = culprit.entry
        bound = entry.bound if entry is not None and entry.how in ("assign", "item") else None
        location = place(culprit.kept, bound, culprit.born)
        if location is None:
            return None
        return Recognition(
            message=f"`{called(culprit, scene)}` is the tensor that `{alias.owner or alias.path}` was before the move: the module has a new one on {alias.device}",
            location=location,
            confidence=Confidence.CERTAIN,
            evidence=story(
                scene,
                birth(culprit),
                (culprit.kept or bound, "a second reference is kept here"),
                (
                    alias.born,
                    f"the module moves to {alias.device} here and replaces its buffer; the reference keeps the old one",
                ),
            ),
            help=f"Look `{alias.owner or alias.path}` up when it is used, instead of keeping the tensor",
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        yield from mending.at_use(scene, sites)

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            f"this keeps a second reference to the buffer `{meeting.name}`; `Module.to` replaces the buffer, and the reference stays on cpu",
            help="Look the buffer up when it is used",
        )
