"""The rule `loss-weight-not-moved`."""

from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Action, Scene
from samedevice.rules import mending, mending_modules
from samedevice.rules.questions import (
    birth,
    called,
    device_of_others,
    is_loss_call,
    is_mixed,
    module_of,
    place,
    story,
    wanted,
    with_device,
)
from samedevice.rules.reading import move_created, told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class LossWeightNotMoved(Rule):
    """Checks for class weights of a loss that are left on the CPU.

    ## Why is this bad?
    A loss with class weights (`weight=`, `pos_weight=`) is a module with a buffer. Nobody thinks of moving a
    loss function, so predictions and targets, both on the GPU, meet a third tensor that is not.

    ## Example
    ```python
    import torch

    criterion = torch.nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 4.0]))
    logits = torch.rand(5, 3, device="cuda")
    target = torch.tensor([0, 1, 2, 1, 0], device="cuda")
    print(criterion(logits, target).item())
    ```

    Use instead:
    ```python
    import torch

    criterion = torch.nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 4.0])).to("cuda")
    logits = torch.rand(5, 3, device="cuda")
    target = torch.tensor([0, 1, 2, 1, 0], device="cuda")
    print(criterion(logits, target).item())
    ```

    ## Fix safety
    The fix is unsafe: it moves the loss where it is made.
    """

    name = "loss-weight-not-moved"
    group = "modules"
    engines = ("check", "lint")
    specificity = 66
    lesson = "A loss with weights is a module with a buffer: move it like a model, or make it a submodule of the model."

    def recognise(self, scene: Scene) -> Recognition | None:
        """A buffer of a loss module, or the `weight` argument of a loss function."""
        culprit, module = scene.culprit, module_of(scene)
        if not is_mixed(scene) or culprit is None or culprit.device != "cpu":
            return None
        if module is not None and module.is_loss and not module.parameters:
            location = place(module.created)
            if location is None:
                return None
            name = module.root or module.owner
            return Recognition(
                message=f"the weights of the loss `{name}` are on cpu: it was never moved to {wanted(scene)}",
                location=location,
                confidence=Confidence.CERTAIN,
                evidence=story(
                    scene,
                    birth(culprit),
                    (module.created, "the loss is made here and keeps the weights as a buffer"),
                ),
                help=f"Move the loss to {wanted(scene)} like the model",
                suggestion=f"{module.created.expression}.to({scene.anchor or 'device'})"
                if module.created and module.created.expression
                else None,
                cause=("module", location.path, location.line, module.root),
            )
        stray = scene.stray_operand
        born = culprit.born
        if (
            stray is None
            or stray.name not in ("weight", "pos_weight")
            or module is not None
            or not is_loss_call(scene)
            or born is None
            or born.location is None
            or born.action not in (Action.CREATED, Action.FROM_NUMPY)
            or born.explicit_device
        ):
            return None
        return Recognition(
            message=f"the loss weight `{called(culprit, scene)}` is created on cpu, but predictions and targets are on {wanted(scene)}",
            location=born.location,
            confidence=Confidence.CERTAIN,
            evidence=story(scene, birth(culprit)),
            help=f"Create the weights on {wanted(scene)}",
            suggestion=with_device(born.expression, scene.anchor or device_of_others(scene) or "device"),
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        if module_of(scene) is None:
            yield from mending.on_device(sites.at(found.location), scene.wanted)
            yield from mending.at_use(scene, sites)
        else:
            yield from mending_modules.made_on(sites.at(found.location), scene, sites)

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        name = meeting.facts.get("parameter", "weight")
        return told(
            meeting,
            f"`{name}` of this `{meeting.name}` stays on cpu: the loss is never moved to {meeting.wanted}",
            help="Move the loss like the model",
            fix=move_created(meeting),
        )
