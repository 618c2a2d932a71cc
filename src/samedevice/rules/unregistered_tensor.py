"""The rule `unregistered-tensor`."""

import re
from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Holder, Operand, Scene
from samedevice.rules import mending, mending_modules
from samedevice.rules.questions import birth, called, is_mixed, place, story, to_gpu
from samedevice.rules.reading import buffer_fix, to_wanted, told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


def out_of_reach(scene: Scene) -> Operand | None:
    """The culprit, if a module holds it as a plain attribute and was moved after it was made."""
    culprit = scene.culprit
    if not is_mixed(scene) or culprit is None or culprit.device != "cpu":
        return None
    if (
        culprit.holder is not Holder.ATTRIBUTE
        or not culprit.holder_is_module
        or to_gpu(culprit.host_moves) is None
    ):
        return None
    return culprit


class UnregisteredTensor(Rule):
    """Checks for tensors that a module keeps as plain attributes, out of reach of `Module.to`.

    ## Why is this bad?
    `Module.to` moves parameters and registered buffers. A tensor assigned to `self.something` is neither (unless
    it is an `nn.Parameter` or `nn.Buffer`): it stays where it was made, and it is missing from the state dict.
    The mistake shows in `forward`, far from the line that made the tensor.

    ## Example
    ```python
    import torch

    class Masked(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)
            self.mask = torch.ones(4)

        def forward(self, x):
            return self.linear(x) * self.mask

    model = Masked().to("cuda")
    print(model(torch.rand(3, 4, device="cuda")).sum().item())
    ```

    Use instead:
    ```python
    import torch

    class Masked(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)
            self.register_buffer("mask", torch.ones(4), persistent=False)

        def forward(self, x):
            return self.linear(x) * self.mask

    model = Masked().to("cuda")
    print(model(torch.rand(3, 4, device="cuda")).sum().item())
    ```

    ## Fix safety
    The fix is unsafe: a buffer is seen by whatever walks over buffers (DDP's synchronisation, averaging).
    With `persistent=False` the state dict stays as it was.
    """

    name = "unregistered-tensor"
    group = "out of Module.to's reach"
    engines = ("check", "lint")
    specificity = 58
    lesson = "`Module.to` moves parameters and buffers only; a tensor that belongs to a module is registered with `register_buffer`."

    def recognise(self, scene: Scene) -> Recognition | None:
        """A plain attribute of a module that was moved after the tensor was made."""
        culprit = out_of_reach(scene)
        if culprit is None:
            return None
        location = place(culprit.kept, culprit.born)
        move = to_gpu(culprit.host_moves)
        if location is None or move is None:
            return None
        name = called(culprit, scene)
        return Recognition(
            message=f"`{name}` stays on {culprit.device} when `{culprit.holder_class}` moves to {move.device}: it is a plain attribute, not a buffer",
            location=location,
            confidence=Confidence.CERTAIN,
            evidence=story(
                scene,
                birth(culprit),
                (culprit.kept, f"kept as a plain attribute of `{culprit.holder_class}` here"),
                (move, f"the module moves to {move.device} here; plain attributes stay"),
            ),
            help="Register it as a buffer, so that it moves with the module",
            suggestion=as_buffer(culprit.kept.expression if culprit.kept else None),
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        yield from mending_modules.as_buffer(sites.at(found.location))
        yield from mending.at_use(scene, sites)

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            f"`self.{meeting.name}` stays on {meeting.device} when `{meeting.owner}` moves{to_wanted(meeting)}: it is a plain attribute, not a buffer",
            help="Register it as a buffer, so that it moves with the module",
            fix=buffer_fix(meeting),
        )


def as_buffer(statement: str | None) -> str | None:
    """`self.x = value` as a registration."""
    found = re.fullmatch(r"self\.(\w+)\s*(?::[^=]+)?=\s*(?!=)(.+)", statement or "", re.DOTALL)
    if found is None:
        return None
    return f'self.register_buffer("{found[1]}", {found[2].strip()}, persistent=False)'
