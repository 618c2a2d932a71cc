"""The rule `module-not-moved`."""

from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Scene
from samedevice.rules import mending_modules
from samedevice.rules.questions import is_mixed, left_behind, module_of, place, replaced, story, wanted
from samedevice.rules.reading import move_created, told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class ModuleNotMoved(Rule):
    """Checks for modules that are used with GPU tensors but were never moved to the GPU.

    ## Why is this bad?
    A module's parameters and buffers are created on the CPU. Every module that works on GPU tensors has to be
    moved itself: the second model (teacher, critic, discriminator), the one rebuilt for evaluation before
    `load_state_dict`, a module that another one merely uses. `load_state_dict` copies values; it
    does not move the module to where the values came from.

    PyTorch's message often blames the input: with the weights on the CPU it says "mat1 is on cuda:0,
    different from other tensors on cpu".

    ## Example
    ```python
    import torch

    student = torch.nn.Linear(4, 2).to("cuda")
    teacher = torch.nn.Linear(4, 2)
    x = torch.rand(3, 4, device="cuda")
    print((student(x) - teacher(x)).abs().mean().item())
    ```

    Use instead:
    ```python
    import torch

    student = torch.nn.Linear(4, 2).to("cuda")
    teacher = torch.nn.Linear(4, 2).to("cuda")
    x = torch.rand(3, 4, device="cuda")
    print((student(x) - teacher(x)).abs().mean().item())
    ```

    ## Fix safety
    The fix is unsafe: it moves the module where it is made, and memory on the GPU is needed for it.
    """

    name = "module-not-moved"
    group = "modules"
    engines = ("check", "lint")
    specificity = 60
    lesson = "A module starts on the CPU and stays there until it, or a module that contains it, is moved: every model of a program needs its own `.to(device)`."

    def recognise(self, scene: Scene) -> Recognition | None:
        """A parameter or buffer whose module never went to a GPU."""
        module, culprit = module_of(scene), scene.culprit
        collective = left_behind(scene) is not None
        if module is None or culprit is None or culprit.device != "cpu":
            return None
        if not is_mixed(scene) and not collective:
            return None
        location = place(module.created, culprit.born)
        if location is None or replaced(culprit, scene):
            return None
        name = module.root or module.owner
        use = (
            "shared between processes that work on their GPUs"
            if collective
            else f"used with tensors on {wanted(scene)}"
        )
        return Recognition(
            message=f"`{name}` is {use} but was never moved there: its parameters are on cpu",
            location=location,
            confidence=Confidence.CERTAIN if module.never_moved else Confidence.LIKELY,
            evidence=story(
                scene, (module.created, f"`{module.root_class or module.class_name}` is made here, on cpu")
            ),
            help=f"Move `{name}` to {wanted(scene)} where it is made",
            suggestion=_suggestion(module.created.expression if module.created else None, scene),
            cause=("module", location.path, location.line, module.root),
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        yield from mending_modules.made_on(sites.at(found.location), scene, sites)

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            f"this `{meeting.name}` stays on cpu: it is never moved, and it is used with data on {meeting.wanted}",
            help=f"Move it to {meeting.wanted}",
            fix=move_created(meeting),
        )


def _suggestion(expression: str | None, scene: Scene) -> str | None:
    if expression is None or not expression.endswith(")"):
        return None
    return f"{expression}.to({scene.anchor or 'device'})"
