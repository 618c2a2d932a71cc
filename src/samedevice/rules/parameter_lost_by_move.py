"""The rule `parameter-lost-by-move`."""

import ast
import re
from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.scene import Action, Kind, Scene
from samedevice.rules import mending_modules
from samedevice.rules.questions import birth, short, story
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class ParameterLostByMove(Rule):
    """Checks for parameters that are moved after they were made, which leaves an ordinary tensor.

    ## Why is this bad?
    `nn.Parameter(...).to(device)` and `torch.zeros(3, requires_grad=True).cuda()` return the result of an operation:
    not a leaf, no parameter any more. Assigned to a module it is a plain attribute, and an optimizer refuses it:
    "can't optimize a non-leaf Tensor". On the CPU the move changes nothing and everything works.

    ## Example
    ```python
    import torch

    weight = torch.nn.Parameter(torch.zeros(3)).to("cuda")
    optimizer = torch.optim.SGD([weight], lr=0.1)
    ```

    Use instead:
    ```python
    import torch

    weight = torch.nn.Parameter(torch.zeros(3, device="cuda"))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    ```

    ## Fix safety
    The fix is unsafe: it creates the tensor on the device and makes a parameter of it there.
    """

    name = "parameter-lost-by-move"
    group = "state over time"
    alters_results = True
    specificity = 90
    lesson = "Moving a parameter gives a new, ordinary tensor: create the data on the device first and make the parameter of it."

    def recognise(self, scene: Scene) -> Recognition | None:
        """An optimizer was given a tensor that a move made."""
        if scene.kind is not Kind.LEAF:
            return None
        operand = scene.stray_operand
        moved = operand.provenance[-1] if operand is not None and operand.provenance else None
        if operand is None or moved is None or moved.action is not Action.MOVED or moved.location is None:
            return None
        text = moved.expression or ""
        return Recognition(
            message=f"`{short(text or moved.function)}` is no parameter but the result of a move, which no optimizer takes",
            location=moved.location,
            confidence=Confidence.CERTAIN,
            evidence=story(
                scene, birth(operand), (moved, f"the move to {moved.device} returns an ordinary tensor here")
            ),
            help="Create the tensor on the device, then make the parameter of it",
            suggestion=_inside(text),
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        yield from mending_modules.moved_inside(sites.at(found.location))


def _inside(text: str) -> str | None:
    """`nn.Parameter(x).to(d)` as `nn.Parameter(x.to(d))`."""
    found = re.fullmatch(r"((?:\w+\.)*Parameter)\((.+)\)\.(to|cuda)\((.*)\)", text, re.DOTALL)
    try:
        inner = None if found is None else ast.parse(f"f({found[2]})", mode="eval").body
    except SyntaxError:
        return None
    if found is None or not isinstance(inner, ast.Call) or not inner.args:
        return None
    # The move is the tensor's, not that of another argument.
    first, more = ast.get_source_segment(f"f({found[2]})", inner.args[0]), [*inner.args[1:], *inner.keywords]
    given = "".join(f", {ast.unparse(argument)}" for argument in more)
    return f"{found[1]}({first}.{found[3]}({found[4]}){given})"
