"""The rule `cpu-gradient`."""

from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Kind, Scene
from samedevice.rules import mending
from samedevice.rules.questions import birth, moved, short, story, wanted
from samedevice.rules.reading import gradient_fix, told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class CpuGradient(Rule):
    """Checks for gradients that are on another device than the tensor they belong to.

    ## Why is this bad?
    The gradient that a custom `autograd.Function.backward` returns, that is handed to `backward(gradient=…)` or
    assigned to `.grad`, has to be on the device of its tensor. A backward written with numpy returns CPU tensors;
    the traceback shows `loss.backward()` and not the line that made the gradient.

    ## Example
    ```python
    import numpy as np
    import torch

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return torch.from_numpy(np.asarray(gradient.cpu()) * 2)

    x = torch.rand(3, device="cuda", requires_grad=True)
    Double.apply(x).sum().backward()
    ```

    Use instead:
    ```python
    import numpy as np
    import torch

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return torch.from_numpy(np.asarray(gradient.cpu()) * 2).to(gradient.device)

    x = torch.rand(3, device="cuda", requires_grad=True)
    Double.apply(x).sum().backward()
    ```

    ## Fix safety
    The fix is unsafe: it adds a move to the device of the incoming gradient.
    """

    name = "cpu-gradient"
    group = "offload, meta, tools"
    engines = ("check", "lint")
    specificity = 90
    lesson = "A gradient lives where its tensor lives: a custom backward returns tensors on the device of the gradient it was given."

    def recognise(self, scene: Scene) -> Recognition | None:
        """The autograd engine's own refusal."""
        if scene.kind is not Kind.GRADIENT:
            return None
        operand = scene.stray_operand
        made = operand.provenance[-1] if operand is not None and operand.provenance else None
        location = made.location if made is not None and made.location is not None else scene.raised
        function = str(scene.extra.get("function", "")).removesuffix("Backward")
        who = f"`{function}.backward` returns a gradient" if function else "the gradient is"
        on = operand.device if operand is not None else "another device"
        return Recognition(
            message=f"{who} on {on}, but the tensor it belongs to is on {wanted(scene)}",
            location=location,
            confidence=Confidence.CERTAIN if made is not None else Confidence.LIKELY,
            evidence=story(
                scene, birth(operand) if operand is not None else None, (made, f"this gradient is on {on}")
            ),
            help=f"Move the gradient to {wanted(scene)}, the device of its tensor",
            suggestion=moved(short(made.expression, 200), "grad_output.device")
            if made is not None and made.expression and function
            else None,
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        yield from mending.gradient_on(sites.at(found.location), scene.wanted)

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            f"`{meeting.operator}` returns a gradient on {meeting.device} for an input on {meeting.wanted}",
            help="Return it on the device of the gradient that comes in",
            fix=gradient_fix(meeting),
        )
