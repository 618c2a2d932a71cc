"""The rule `data-parallel-source-device`."""

from collections.abc import Iterator
from dataclasses import replace

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Kind, ModuleFact, Scene, Step
from samedevice.rules import mending, mending_modules
from samedevice.rules.questions import last, place, story
from samedevice.rules.reading import move_created, told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class DataParallelSourceDevice(Rule):
    """Checks for models wrapped in `DataParallel` that are not on its first GPU.

    ## Why is this bad?
    `nn.DataParallel` replicates the model from `device_ids[0]` to the other GPUs at each call, and does not put it
    there itself: the model has to be moved to that GPU before.

    ## Example
    ```python
    import torch

    model = torch.nn.DataParallel(torch.nn.Linear(4, 2), device_ids=[0, 1])
    print(model(torch.rand(6, 4, device="cuda")).sum().item())
    ```

    Use instead:
    ```python
    import torch

    model = torch.nn.DataParallel(torch.nn.Linear(4, 2).to("cuda:0"), device_ids=[0, 1])
    print(model(torch.rand(6, 4, device="cuda")).sum().item())
    ```

    ## Fix safety
    The fix is unsafe: it moves the model where it is made.
    """

    name = "data-parallel-source-device"
    group = "several GPUs"
    engines = ("check", "lint")
    specificity = 90
    lesson = "`DataParallel` copies from its first GPU: the model is moved to `device_ids[0]` before it is wrapped."

    def recognise(self, scene: Scene) -> Recognition | None:
        """DataParallel's own check of its source device."""
        if scene.kind is not Kind.DATA_PARALLEL:
            return None
        module, wrapped = scene.extra.get("module_fact"), scene.extra.get("wrapped_at")
        fact = module if isinstance(module, ModuleFact) else None
        step = wrapped if isinstance(wrapped, Step) else None
        made = None if fact is None else fact.created
        move = None if fact is None else last(fact.moves)
        location = place(move, made, step) or scene.raised
        where = fact.device if fact is not None and fact.device else "another device"
        return Recognition(
            message=f"the model is on {where}, but `DataParallel` replicates it from its first GPU",
            location=location,
            confidence=Confidence.CERTAIN,
            evidence=story(
                scene,
                (made, f"the model is made here, on {where}" if move is None else "the model is made here"),
                (move, f"moved to {where} here"),
                (step, "wrapped in `DataParallel` here"),
            ),
            help="Move the model to the first GPU before it is wrapped",
            suggestion=f"{made.expression}.to(device)"
            if made is not None and made.expression and move is None
            else None,
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        yield from mending.other_device(sites.at(found.location), "cuda:0")
        yield from mending_modules.made_on(sites.at(found.location), replace(scene, wanted="cuda:0"), sites)

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            f"`DataParallel` wraps `{meeting.name}` while its parameters are on cpu; they must be on the first of its GPUs",
            help="Move the model to the first GPU before it is wrapped",
            fix=move_created(meeting),
        )
