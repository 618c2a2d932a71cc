"""The rule `device-argument-dropped`."""

import re
from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence, Evidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Scene
from samedevice.rules import mending
from samedevice.rules.questions import birth, called, is_mixed, story, wanted
from samedevice.rules.reading import argument_fix, told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class DeviceArgumentDropped(Rule):
    """Checks for calls that leave a `device` parameter to its default while the program works elsewhere.

    ## Why is this bad?
    A helper with `device="cpu"` as default works until somebody forgets to hand the device on, or hands it on in
    the wrong position. Nothing complains: the helper silently builds on the CPU, and the tensors meet
    others on the GPU much later.

    ## Example
    ```python
    import torch

    def build(width, device="cpu"):
        return torch.nn.Linear(width, width).to(device)

    device = torch.device("cuda")
    model = build(4)
    print(model(torch.rand(2, 4, device=device)).sum().item())
    ```

    Use instead:
    ```python
    import torch

    def build(width, device="cpu"):
        return torch.nn.Linear(width, width).to(device)

    device = torch.device("cuda")
    model = build(4, device=device)
    print(model(torch.rand(2, 4, device=device)).sum().item())
    ```

    ## Fix safety
    The fix is unsafe: it hands on a variable called `device`, if there is one in scope.
    """

    name = "device-argument-dropped"
    group = "creation"
    engines = ("check", "lint")
    specificity = 74
    lesson = "A default device in a helper hides a forgotten argument: pass the device by keyword, or let the helper follow its inputs."

    def recognise(self, scene: Scene) -> Recognition | None:
        """The device that was decided is the default of a parameter that a call did not give."""
        culprit = scene.culprit
        if not is_mixed(scene) or culprit is None or culprit.decision is None:
            return None
        decision = culprit.decision
        if decision.how != "omitted" or _spreads(decision.default, scene.wanted):
            return None
        name = called(culprit, scene)
        born = culprit.born.location if culprit.born else None
        placed = culprit.placed.location if culprit.placed else None
        return Recognition(
            message=f"this call leaves `{decision.name}` of `{decision.function}` to its default `{decision.default}`, so `{name}` ends up on {culprit.device}",
            location=decision.location,
            confidence=Confidence.CERTAIN,
            evidence=story(
                scene,
                None if born == placed else birth(culprit),
                Evidence(
                    decision.location,
                    f"called without `{decision.name}`: the default is `{decision.default}`",
                ),
                (culprit.placed, f"`{decision.name}` puts it on {culprit.device} here"),
            ),
            help=f"Hand the device on by keyword: `{decision.name}=…`; it belongs on {wanted(scene)}",
            suggestion=_with_keyword(decision.expression, decision.name),
            cause=("omitted", decision.location.path, decision.location.line),
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        decision = None if scene.culprit is None else scene.culprit.decision
        name = None if decision is None else decision.name
        yield from mending.passed_on(sites.at(found.location), name, scene.wanted)

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        owner = f" of `{meeting.owner}`" if meeting.owner else ""
        return told(
            meeting,
            f"this call leaves out `{meeting.name}`{owner}, whose default is {meeting.device}; what it makes meets {meeting.wanted}",
            help=f"Pass `{meeting.name}`",
            fix=argument_fix(meeting),
        )


def _spreads(default: str | None, wanted: str | None) -> bool:
    """`devices=("cuda:0", "cuda:1")`: the default has both sides, and leaving it is no mistake."""
    return (
        default is not None
        and wanted is not None
        and re.search(rf"""['"]{wanted}['"]""", default) is not None
    )


_SPACE = r"\s*"


def _with_keyword(call: str, name: str | None) -> str | None:
    if name is None or not call.endswith(")") or "\n" in call:
        return None
    inner = call[:-1].rstrip().removesuffix(",")
    astray = re.search(rf"(?<=[(,]){_SPACE}{re.escape(name)}(?={_SPACE}[,)])", call)
    if astray is not None:  # handed on by position, into another parameter
        return f"{call[: astray.start()]}{astray[0].removesuffix(name)}{name}={name}{call[astray.end() :]}"
    return f"{inner}{'' if inner.endswith('(') else ', '}{name}=device)"
