"""The rule `load-without-map-location`."""

from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Action, Holder, Kind, Operand, Scene
from samedevice.rules import mending
from samedevice.rules.questions import STATE, birth, called, is_mixed, replaced, short, story, wanted
from samedevice.rules.reading import keyword_fix, told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class LoadWithoutMapLocation(Rule):
    """Checks for checkpoints whose tensors come back on another device than the one they are used on.

    ## Why is this bad?
    `torch.load` restores each tensor on the device from which it was saved: a file written on `cuda:1` comes back
    there, and fails to load on a machine with one GPU. Tensors copied into a module by `load_state_dict` are
    safe, they follow the module; tensors used straight from the file are not.

    ## Example
    ```python
    import io

    import torch

    file = io.BytesIO()
    torch.save({"mean": torch.rand(4)}, file)
    file.seek(0)
    mean = torch.load(file)["mean"]
    print((torch.rand(4, device="cuda") - mean).sum().item())
    ```

    Use instead:
    ```python
    import io

    import torch

    file = io.BytesIO()
    torch.save({"mean": torch.rand(4)}, file)
    file.seek(0)
    mean = torch.load(file, map_location="cuda")["mean"]
    print((torch.rand(4, device="cuda") - mean).sum().item())
    ```

    ## Fix safety
    The fix is unsafe: everything in the file is restored on that device.
    """

    name = "load-without-map-location"
    group = "state over time"
    engines = ("check", "lint")
    specificity = 82
    lesson = "A checkpoint remembers its devices: say `map_location` when loading, and it comes back where you need it."

    def recognise(self, scene: Scene) -> Recognition | None:
        """The stray's data came out of a file and was not moved since."""
        culprit = scene.culprit
        if not is_mixed(scene) and scene.kind is not Kind.LOAD:
            return None
        if scene.kind is Kind.LOAD:
            return Recognition(
                message="the checkpoint asks for a device that this machine does not have",
                location=scene.raised,
                confidence=Confidence.LIKELY,
                evidence=story(scene),
                help="Say where to restore it: `map_location=device`",
                notes=("A machine with more GPUs would load it: `--gpus` sets how many are virtual",),
            )
        if culprit is None or culprit.holder is Holder.OPTIMIZER_STATE:
            return None
        if culprit.holder in STATE and not replaced(culprit, scene):
            return None
        born = culprit.provenance[-1] if culprit.provenance else None
        if born is None or born.location is None:
            return None
        if born.package == "safetensors" and born.action is Action.CREATED:
            return Recognition(
                message=f"`{called(culprit, scene)}` is used on {wanted(scene)}, but safetensors loads onto {culprit.device} here",
                location=born.location,
                confidence=Confidence.CERTAIN,
                evidence=story(scene, (born, f"loaded onto {culprit.device} here")),
                help=f"Load it onto {wanted(scene)}: `device=…`",
            )
        if born.action is not Action.LOADED:
            return None
        mapped = bool(born.explicit_device)
        how = (
            f"`map_location` restores it on {culprit.device}"
            if mapped
            else f"the file restores it on {culprit.device}, where it was saved"
        )
        return Recognition(
            message=f"`{called(culprit, scene)}` is used on {wanted(scene)}, but {how}",
            location=born.location,
            confidence=Confidence.CERTAIN,
            evidence=story(scene, birth(culprit)),
            help=f"Load it onto {wanted(scene)}: `map_location=…`",
            suggestion=None if mapped else _mapped(born.expression, scene.anchor),
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        site = sites.at(found.location)
        if site is not None:
            devices = site.devices(scene.wanted)[: mending.MOST_DEVICES]
            name = "device" if _by_safetensors(scene.culprit) else "map_location"
            yield from mending.keyword(site, name, devices, "Load onto the device that is used")
        yield from mending.at_use(scene, sites)

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            f"`torch.load` restores to {meeting.device}, where it was saved; it meets {meeting.wanted}",
            help="Pass `map_location`",
            fix=keyword_fix(meeting, f"map_location={meeting.anchor}", "Load onto the device that is used")
            if meeting.anchor
            else None,
        )


def _by_safetensors(operand: Operand | None) -> bool:
    """Whether safetensors loaded it, whose functions call the argument `device`."""
    return (
        operand is not None and bool(operand.provenance) and operand.provenance[-1].package == "safetensors"
    )


def _mapped(expression: str | None, anchor: str | None) -> str | None:
    if expression is None or not expression.endswith(")"):
        return None
    return f"{short(expression[:-1].removesuffix(','), 200)}, map_location={anchor or 'device'})"
