"""The rule `target-not-moved`."""

from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Operand, Scene
from samedevice.rules import mending, mending_parts
from samedevice.rules.questions import (
    STATE,
    birth,
    candidates,
    device_of_others,
    is_mixed,
    moved,
    place,
    short,
    story,
    wanted,
)
from samedevice.rules.reading import batch_fix, handed, told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class TargetNotMoved(Rule):
    """Checks for batches of which only a part is moved, as inputs without their targets.

    ## Why is this bad?
    Inputs and targets come out of the loader together, on the CPU. When only the inputs are moved, the
    forward pass works and the loss raises; the message then names an operator nobody wrote
    (`nll_loss_forward`) and often blames the tensor that is right.

    ## Example
    ```python
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    model = torch.nn.Linear(4, 3).to("cuda")
    data = TensorDataset(torch.rand(8, 4), torch.randint(0, 3, (8,)))
    for x, y in DataLoader(data, batch_size=4):
        logits = model(x.to("cuda"))
        print(torch.nn.functional.cross_entropy(logits, y).item())
    ```

    Use instead:
    ```python
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    model = torch.nn.Linear(4, 3).to("cuda")
    data = TensorDataset(torch.rand(8, 4), torch.randint(0, 3, (8,)))
    for x, y in DataLoader(data, batch_size=4):
        x, y = x.to("cuda"), y.to("cuda")
        logits = model(x)
        print(torch.nn.functional.cross_entropy(logits, y).item())
    ```

    ## Fix safety
    The fix is unsafe: it moves the target at the head of the loop, and code in the loop that needs it on
    the host (numpy metrics) has to take it back.
    """

    name = "target-not-moved"
    group = "data flow"
    engines = ("check", "lint")
    specificity = 56
    lesson = "Everything that comes out of the loader starts on the CPU: inputs, targets, masks and weights are moved together."

    def recognise(self, scene: Scene) -> Recognition | None:
        """Data of a batch of which something else was moved."""
        if not is_mixed(scene):
            return None
        return next((r for r in (self._of(o, scene) for o in candidates(scene)) if r is not None), None)

    def _of(self, culprit: Operand, scene: Scene) -> Recognition | None:
        if culprit.device != "cpu" or culprit.holder in STATE or culprit.entry is None:
            return None
        entry = culprit.entry
        if entry.how not in ("for", "unpack", "item", "slice") and not entry.loader:
            return None
        if not entry.moved_beside:
            return None  # nothing of it was moved: that is another mistake
        bound = entry.bound if entry.how == "item" else None
        location = place(bound, entry.used)
        if location is None:
            return None
        name = short(entry.name, 40)
        anchor = device_of_others(scene) or scene.anchor
        beside = ", ".join(f"`{n}`" for n in entry.moved_beside[:2])
        verb = "was" if len(entry.moved_beside) == 1 else "were"
        return Recognition(
            message=f"{beside} {verb} moved to {wanted(scene)}, but `{name}` from the same batch was not",
            location=location,
            confidence=Confidence.CERTAIN,
            evidence=story(
                scene,
                birth(culprit),
                (entry.bound, f"`{name}` gets its value here, on cpu"),
                (entry.used, f"`{name}` is used here, still on cpu"),
            ),
            help=f"Move `{name}` together with the rest of the batch",
            suggestion=f"{name} = {moved(name, anchor or 'device')}"
            if name.isidentifier()
            else moved(name, anchor or "device"),
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        entry = next((o.entry for o in candidates(scene) if o.entry is not None), None)
        if entry is not None:
            yield from mending_parts.batch(scene, sites, entry.name, entry.bound, entry.used)
        yield from mending.at_use(scene, sites)

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            f"`{handed(meeting)}` stays on cpu while what it is compared with is on {meeting.wanted}",
            help=f"Move it to {meeting.wanted} beside the inputs",
            fix=batch_fix(meeting),
        )
