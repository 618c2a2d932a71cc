"""The rule `module-added-after-move`."""

from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Scene
from samedevice.rules import mending_modules, mending_order
from samedevice.rules.questions import (
    birth,
    is_mixed,
    last,
    meeting,
    module_of,
    place,
    set_apart,
    story,
    wanted,
)
from samedevice.rules.reading import move_created, told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class ModuleAddedAfterMove(Rule):
    """Checks for submodules that are added to a model after it was moved.

    ## Why is this bad?
    `Module.to` moves what is there at the time. An adapter, a new head or a replaced layer that joins the model
    later is on the CPU, in the middle of a model on the GPU.

    ## Example
    ```python
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(4, 8)).to("cuda")
    model.append(torch.nn.Linear(8, 2))
    print(model(torch.rand(5, 4, device="cuda")).sum().item())
    ```

    Use instead:
    ```python
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(4, 8))
    model.append(torch.nn.Linear(8, 2))
    model.to("cuda")
    print(model(torch.rand(5, 4, device="cuda")).sum().item())
    ```

    ## Fix safety
    Reading alone gives no fix. `check --fix` tries an unsafe one and keeps it when a run proves it.
    Either the move goes behind the addition, or the new module is made on the
    model's device.
    """

    name = "module-added-after-move"
    group = "modules"
    engines = ("check", "lint")
    specificity = 72
    lesson = (
        "`Module.to` moves what is part of the model at that moment: finish the model first, then move it."
    )

    def recognise(self, scene: Scene) -> Recognition | None:
        """A registered submodule that was made after its model had been moved."""
        module, culprit = module_of(scene), scene.culprit
        if not is_mixed(scene) or module is None or module.joined is None or culprit is None:
            return None
        move = last(module.host_moves)
        if (
            move is None
            or move.device == culprit.device
            or (module.root_device or move.device) == culprit.device
        ):
            return None
        frame = set_apart(module.joined, move, scene)
        location = frame.location if frame is not None else place(module.joined, culprit.born)
        if location is None:
            return None
        return Recognition(
            message=f"`{module.owner}` joins `{module.root}` after that was moved to {move.device}, so it stays on {culprit.device}",
            location=location,
            confidence=Confidence.CERTAIN,
            evidence=story(
                scene,
                (move, f"`{module.root}` moves to {move.device} here"),
                birth(culprit),
                (module.joined, f"`{module.class_name}` is added later, on {culprit.device}"),
            ),
            help=f"Move `{module.root}` after everything was added to it, or make `{module.class_name}` on {wanted(scene)}",
            suggestion=f"{module.root}.to({scene.anchor or 'device'})" if module.root else None,
            cause=("added", location.path, location.line),
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        module = module_of(scene)
        move = None if module is None else last(module.host_moves)
        if module is not None and move is not None and module.joined is not None:
            there = meeting(move, module.joined)
            yield from mending_order.once_more(
                sites, there.location if there else move.location, found.location
            )
            yield from mending_modules.made_on(sites.at(place(module.created)), scene, sites)

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            f"`{meeting.name}` is put into `{meeting.owner}` after that moved to {meeting.wanted}: its parameters stay on cpu",
            help="Move the model once more after its parts are complete, or move the new part",
            fix=move_created(meeting),
        )
