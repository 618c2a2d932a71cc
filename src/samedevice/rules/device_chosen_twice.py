"""The rule `device-chosen-twice`."""

from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Scene
from samedevice.rules import mending, mending_modules
from samedevice.rules.questions import birth, called, is_mixed, short, story
from samedevice.rules.reading import told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class DeviceChosenTwice(Rule):
    """Checks for modules of a program that each choose a device for themselves, and differently.

    ## Why is this bad?
    Two files that both ask "is there a GPU?" need not come to the same answer: one knows MPS and not CUDA, one was
    edited last month. What the two files make then lives on different devices.

    ## Example
    ```python
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    cache_device = torch.device("mps" if torch.backends.mps.is_available() else "cpu")

    model = torch.nn.Linear(4, 4).to(device)
    cache = torch.zeros(2, 4, device=cache_device)
    print((model(torch.rand(2, 4, device=device)) + cache).sum().item())
    ```

    Use instead:
    ```python
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    model = torch.nn.Linear(4, 4).to(device)
    cache = torch.zeros(2, 4, device=device)
    print((model(torch.rand(2, 4, device=device)) + cache).sum().item())
    ```

    ## Fix safety
    Reading alone gives no fix. `check --fix` tries an unsafe one and keeps it when a run proves it.
    One of the choices has to go.
    """

    name = "device-chosen-twice"
    group = "creation"
    engines = ("check", "lint")
    specificity = 70
    lesson = "Choose the device once and import or pass it; a second choice is a second answer."

    def recognise(self, scene: Scene) -> Recognition | None:
        """The stray follows a module-level device, and another module-level device says otherwise."""
        culprit = scene.culprit
        if (
            not is_mixed(scene)
            or culprit is None
            or culprit.decision is None
            or culprit.decision.how not in ("global", "choice")
        ):
            return None
        decision = culprit.decision
        names = scene.extra.get("device_names")
        if not isinstance(names, dict):
            return None
        kind = (scene.wanted or "").partition(":")[0]
        others = [
            n for n, d in names.items() if str(d).partition(":")[0] == kind and n.rpartition(".")[2] != "cpu"
        ]
        if not others or not any(str(d) == culprit.device for d in names.values()):
            return None
        return Recognition(
            message=f"a second choice of device: `{short(decision.expression, 50)}` comes out as {culprit.device}, while `{others[0]}` is {scene.wanted}",
            location=decision.location,
            confidence=Confidence.CERTAIN,
            evidence=story(
                scene,
                (None, ""),
                birth(culprit),
                (culprit.placed, f"`{called(culprit, scene)}` is put on {culprit.device} here"),
            ),
            help=f"Use `{others[0]}` here as well",
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        names = scene.extra.get("device_names")
        kind = (scene.wanted or "").partition(":")[0]
        for name, device in (names if isinstance(names, dict) else {}).items():
            if str(device).partition(":")[0] == kind:
                yield from mending_modules.one_choice(sites.at(found.location), str(name))
        yield from mending.at_use(scene, sites)

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            f"{meeting.device} is chosen here, but what is made with it meets {meeting.wanted}, chosen elsewhere",
            help="Choose the device once and pass it on",
        )
