"""The rule `meta-left`."""

from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Kind, Scene, Step
from samedevice.rules import mending_modules
from samedevice.rules.questions import birth, place, story
from samedevice.rules.reading import told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class MetaLeft(Rule):
    """Checks for tensors on the meta device that never got data.

    ## Why is this bad?
    A model built under `torch.device("meta")` has shapes and no data. `load_state_dict(..., assign=True)` gives data to
    what the checkpoint contains; a non-persistent buffer is in no checkpoint, so it stays meta, and
    `model.to(device)` raises "Cannot copy out of meta tensor; no data!". Filling the rest with `to_empty` would hide
    it: the values would be garbage.

    ## Example
    ```python
    import torch

    class Rotary(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)
            self.register_buffer("frequencies", torch.arange(4.0), persistent=False)

    weights = Rotary().state_dict()
    with torch.device("meta"):
        model = Rotary()
    model.load_state_dict(weights, assign=True)
    model.to("cuda")
    ```

    Use instead:
    ```python
    import torch

    class Rotary(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)
            self.register_buffer("frequencies", torch.arange(4.0), persistent=False)

    weights = Rotary().state_dict()
    with torch.device("meta"):
        model = Rotary()
    model.load_state_dict(weights, assign=True)
    model.frequencies = torch.arange(4.0)
    model.to("cuda")
    ```

    ## Fix safety
    Reading alone gives no fix. `check --fix` tries an unsafe one and keeps it when a run proves it.
    What was not in the checkpoint has to be computed again on a real device.
    """

    name = "meta-left"
    group = "offload, meta, tools"
    engines = ("check", "lint")
    specificity = 90
    lesson = "A meta tensor has a shape and no data: after loading, everything the checkpoint did not contain has to be made again."

    def recognise(self, scene: Scene) -> Recognition | None:
        """A meta tensor was copied or used."""
        operand = scene.stray_operand
        if scene.kind is not Kind.META and (operand is None or operand.device != "meta"):
            return None
        loaded, block, made = (_step(scene, n) for n in ("state_loaded", "meta_block", "meta_made"))
        path = scene.extra.get("meta_path") or (operand.path if operand is not None else None)
        name = f"`{path}`" if path else "a tensor"
        why = (
            ": it is not persistent, so no checkpoint contains it"
            if scene.extra.get("meta_persistent") is False
            else ""
        )
        location = place(loaded, block, made) or scene.raised
        return Recognition(
            message=f"{name} is still on the meta device, without data{why}",
            location=location,
            confidence=Confidence.CERTAIN if loaded or block else Confidence.LIKELY,
            evidence=story(
                scene,
                (block or made, "built without data here"),
                birth(operand) if operand is not None else None,
                (loaded, f"the state dict is loaded here; {name} is not in it"),
            ),
            help=f"Compute {name} again on a real device after loading",
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        operand, loaded = scene.stray_operand, _step(scene, "state_loaded")
        path = scene.extra.get("meta_path") or (operand.path if operand is not None else None)
        made = place(operand.born) if operand is not None else None
        if loaded is not None:
            yield from mending_modules.assigned_state(sites.at(loaded.location))
        else:
            block = place(_step(scene, "meta_block"))
            yield from mending_modules.built_for_real(sites.at(block), scene, scene.raised, sites)
        if loaded is not None and isinstance(path, str):
            yield from mending_modules.made_again(sites, loaded.location, path, made)

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            f"`{meeting.name}` is still on meta after this: it has no data, and cannot be moved",
            help="Materialise it: `to_empty` and initialise, or assign what the checkpoint does not hold",
        )


def _step(scene: Scene, name: str) -> Step | None:
    found = scene.extra.get(name)
    return found if isinstance(found, Step) else None
