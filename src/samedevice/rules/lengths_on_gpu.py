"""The rule `lengths-on-gpu`."""

from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Kind, Scene
from samedevice.rules import mending
from samedevice.rules.questions import arrival, short, story
from samedevice.rules.reading import call_fix, told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class LengthsOnGpu(Rule):
    """Checks for GPU tensors given to arguments that PyTorch reads on the host, as sequence lengths.

    ## Why is this bad?
    `pack_padded_sequence` needs the lengths as a CPU tensor, `tensor_split` its indices: the host plans the work from
    them. A loop that moves the whole batch to the GPU moves the lengths as well.

    ## Example
    ```python
    import torch
    from torch.nn.utils.rnn import pack_padded_sequence

    x = torch.rand(2, 5, 3, device="cuda")
    lengths = torch.tensor([5, 3]).to("cuda")
    print(pack_padded_sequence(x, lengths, batch_first=True).data.shape)
    ```

    Use instead:
    ```python
    import torch
    from torch.nn.utils.rnn import pack_padded_sequence

    x = torch.rand(2, 5, 3, device="cuda")
    lengths = torch.tensor([5, 3])
    print(pack_padded_sequence(x, lengths, batch_first=True).data.shape)
    ```

    ## Fix safety
    The fix is safe: `.cpu()` returns the tensor itself when it is on the CPU already.
    """

    name = "lengths-on-gpu"
    group = "host-only"
    engines = ("check", "lint")
    specificity = 85
    lesson = "Lengths and split points are read by the host: leave them on the CPU when the batch moves."

    def recognise(self, scene: Scene) -> Recognition | None:
        """A host-only argument that is no numpy call."""
        if scene.kind is not Kind.HOST_ONLY or scene.extra.get("family") == "numpy":
            return None
        operand = scene.stray_operand
        name = short(operand.shown) if operand is not None else "the tensor"
        on = operand.device if operand is not None else "the GPU"
        return Recognition(
            message=f"`{name}` is on {on}, but `{scene.operator}` reads it on the host",
            location=scene.raised,
            confidence=Confidence.CERTAIN,
            evidence=story(scene, arrival(operand) if operand is not None else None),
            help="Hand over a CPU tensor",
            suggestion=f"{operand.expression}.cpu()" if operand is not None and operand.expression else None,
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        operand = scene.stray_operand
        yield from mending.to_host(
            scene, sites, None if operand is None else operand.expression, "Hand over a copy on the CPU"
        )

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            f"`{meeting.stray}` is on {meeting.device}, but lengths must be on cpu",
            help="Pass `lengths.cpu()`",
            fix=call_fix(meeting, meeting.stray, ".cpu()", "Pass the lengths on the CPU"),
        )
