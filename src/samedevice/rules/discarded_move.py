"""The rule `discarded-move`."""

import re
from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Scene
from samedevice.rules import mending
from samedevice.rules.questions import birth, is_mixed, short, story, wanted
from samedevice.rules.reading import assign_fix, name_of, told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class DiscardedMove(Rule):
    """Checks for tensors that are moved to a device without keeping the result.

    ## Why is this bad?
    `Tensor.to`, `Tensor.cuda` and `Tensor.cpu` never change the tensor they are called on: they return
    a copy on the other device. A call whose result nobody takes copies the data over the bus and
    throws the copy away; the name still stands for the tensor on the old device. (`Module.to` is
    different: it moves the module's own parameters and buffers, so `model.to(device)` needs no
    assignment.)

    The same happens when the copy goes into a name that is never read again, as a loop variable
    that the next round overwrites.

    ## Example
    ```python
    import torch

    model = torch.nn.Linear(4, 2).to("cuda")
    x = torch.rand(3, 4)
    x.to("cuda")
    print(model(x).sum().item())
    ```

    Use instead:
    ```python
    import torch

    model = torch.nn.Linear(4, 2).to("cuda")
    x = torch.rand(3, 4)
    x = x.to("cuda")
    print(model(x).sum().item())
    ```

    ## Fix safety
    The fix is unsafe: code that relied on the name staying on the old device changes.
    """

    name = "discarded-move"
    group = "data flow"
    engines = ("check", "lint")
    specificity = 95
    lesson = "`tensor.to(device)` returns a copy and leaves the tensor where it is; only `module.to(device)` works in place."

    def recognise(self, scene: Scene) -> Recognition | None:
        """A moved copy of the stray (or of what it was computed from) was made and lost."""
        stray, culprit = scene.stray_operand, scene.culprit
        if not is_mixed(scene) or stray is None or culprit is None:
            return None
        move = stray.discarded or culprit.discarded
        if move is None or move.location is None or (move.device or "").startswith("cpu"):
            return None
        text = short(move.expression or "the move")
        name = re.match(r"[\w.\[\]'\"]+?(?=\.(?:to|cuda|cpu|type_as)\()", move.expression or "")
        what = f"`{name[0]}`" if name else "the tensor"
        return Recognition(
            message=f"`{text}` returns a copy on {wanted(scene)} that is thrown away: {what} itself stays on {stray.device}",
            location=move.location,
            confidence=Confidence.CERTAIN,
            evidence=story(
                scene, birth(culprit), (move, "a copy on the GPU is made here, and nobody keeps it")
            ),
            help="Assign the result of the move",
            suggestion=f"{name[0]} = {move.expression}"
            if name and "=" not in (move.expression or "=")
            else None,
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        yield from mending.assigned(sites.at(found.location))
        yield from mending.at_use(scene, sites)

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            f"`{meeting.stray}` stays where it is: `Tensor.{name_of(meeting)}` returns a moved copy, and this one is thrown away",
            help="Assign the result",
            fix=assign_fix(meeting),
        )
