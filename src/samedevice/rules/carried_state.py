"""The rule `carried-state`."""

from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Scene
from samedevice.rules import mending, mending_modules
from samedevice.rules.questions import birth, called, place, story, to_gpu, wanted
from samedevice.rules.reading import told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites
from samedevice.rules.unregistered_tensor import out_of_reach

STEPS = ("forward", "step", "__call__", "update", "decode", "append", "generate", "training_step")


class CarriedState(Rule):
    """Checks for state carried from call to call (hidden states, caches) that begins on the wrong device.

    ## Why is this bad?
    A recurrent network that keeps its hidden state between batches, a cache of keys and values, a running
    sum: the state is made once, usually before the model is moved, and is a plain attribute that
    `Module.to` does not know. The first call after the move mixes it with the inputs.

    ## Example
    ```python
    import torch

    class Stateful(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = torch.nn.GRUCell(4, 6)
            self.hidden = torch.zeros(2, 6)

        def forward(self, x):
            self.hidden = self.cell(x, self.hidden).detach()
            return self.hidden

    model = Stateful().to("cuda")
    print(model(torch.rand(2, 4, device="cuda")).sum().item())
    ```

    Use instead:
    ```python
    import torch

    class Stateful(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = torch.nn.GRUCell(4, 6)
            self.hidden = None

        def forward(self, x):
            if self.hidden is None:
                self.hidden = x.new_zeros(x.size(0), 6)
            self.hidden = self.cell(x, self.hidden).detach()
            return self.hidden

    model = Stateful().to("cuda")
    print(model(torch.rand(2, 4, device="cuda")).sum().item())
    ```

    ## Fix safety
    Reading alone gives no fix. `check --fix` tries an unsafe one and keeps it when a run proves it.
    Whether the state becomes a buffer, is reset after the move or is made at the
    first input is for the author to say.
    """

    name = "carried-state"
    group = "out of Module.to's reach"
    engines = ("check", "lint")
    specificity = 63
    lesson = "State that outlives a call is made from the first input (`x.new_zeros`), reset after the move, or registered as a buffer."

    def recognise(self, scene: Scene) -> Recognition | None:
        """A plain attribute that the module's own steps store anew."""
        culprit = out_of_reach(scene)
        if culprit is None or not any(name in STEPS for name in culprit.stored_in):
            return None
        kept_by = culprit.kept.function_name if culprit.kept else None
        if kept_by in STEPS or len(culprit.stored_in) < 2:
            return None
        location = place(culprit.kept, culprit.born)
        move = to_gpu(culprit.host_moves)
        if location is None or move is None:
            return None
        name = called(culprit, scene)
        return Recognition(
            message=f"`{name}` is carried from call to call but begins on {culprit.device}: it was made before the module moved to {move.device}",
            location=location,
            confidence=Confidence.CERTAIN,
            evidence=story(
                scene,
                birth(culprit),
                (culprit.kept, f"`{name}` begins here"),
                (move, f"the module moves to {move.device} here; the state stays"),
            ),
            help=f"Make `{name}` from the first input, reset it after the move, or register it as a buffer; it belongs on {wanted(scene)}",
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        culprit = scene.culprit
        move = None if culprit is None else to_gpu(culprit.host_moves)
        kept = None if culprit is None else culprit.kept
        if move is not None and kept is not None:
            yield from mending_modules.reset_after(sites, move.location, kept.function_name)
        yield from mending_modules.as_buffer(sites.at(found.location))
        yield from mending.at_use(scene, sites)

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            f"`self.{meeting.name}` is carried from call to call on {meeting.device}, where it was made; the module moved to {meeting.wanted}",
            help=f"Make it anew on {meeting.wanted} after the move, or register it as a buffer",
        )
