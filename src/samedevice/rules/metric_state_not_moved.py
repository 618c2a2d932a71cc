"""The rule `metric-state-not-moved`."""

from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Scene
from samedevice.rules import mending_modules
from samedevice.rules.questions import is_mixed, module_of, place, story, to_gpu, wanted
from samedevice.rules.reading import move_created, told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class MetricStateNotMoved(Rule):
    """Checks for metric objects whose state stays on the CPU while they are fed with GPU tensors.

    ## Why is this bad?
    A metric that accumulates (a confusion matrix, counts, sums) keeps its state in buffers. It is a module
    like any other, on the CPU until somebody moves it; predictions and targets on the GPU do not pull it
    along. Only trainers that hold the metric as a submodule of the model move it for you.

    ## Example
    ```python
    import torch

    class Accuracy(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("correct", torch.zeros(2))

        def update(self, predicted, target):
            hits = (predicted == target).float()
            self.correct = self.correct + torch.stack([hits.sum(), 1 - hits.mean()])

        def compute(self):
            return self.correct

    metric = Accuracy()
    target = torch.tensor([0, 1, 1], device="cuda")
    metric.update(torch.tensor([0, 1, 0], device="cuda"), target)
    ```

    Use instead:
    ```python
    import torch

    class Accuracy(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("correct", torch.zeros(2))

        def update(self, predicted, target):
            hits = (predicted == target).float()
            self.correct = self.correct + torch.stack([hits.sum(), 1 - hits.mean()])

        def compute(self):
            return self.correct

    metric = Accuracy().to("cuda")
    target = torch.tensor([0, 1, 1], device="cuda")
    metric.update(torch.tensor([0, 1, 0], device="cuda"), target)
    ```

    ## Fix safety
    The fix is unsafe: it moves the metric where it is made.
    """

    name = "metric-state-not-moved"
    group = "modules"
    engines = ("check", "lint")
    specificity = 65
    lesson = "A metric is a module with state: move it to the device of the predictions, or feed it with `.cpu()` tensors."

    def recognise(self, scene: Scene) -> Recognition | None:
        """A buffer of a metric that was never moved."""
        module, culprit = module_of(scene), scene.culprit
        if (
            not is_mixed(scene)
            or module is None
            or not module.is_metric
            or culprit is None
            or culprit.device != "cpu"
            or to_gpu(culprit.host_moves) is not None  # moved, and this did not come along
        ):
            return None
        location = place(module.created)
        if location is None:
            return None
        name = module.root or module.owner
        return Recognition(
            message=f"the metric `{name}` keeps its state on cpu but is fed with tensors on {wanted(scene)}",
            location=location,
            confidence=Confidence.CERTAIN,
            evidence=story(scene, (module.created, f"`{module.root_class}` is made here, its state on cpu")),
            help=f"Move the metric to {wanted(scene)}",
            suggestion=f"{module.created.expression}.to({scene.anchor or 'device'})"
            if module.created and module.created.expression
            else None,
            cause=("module", location.path, location.line, module.root),
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        yield from mending_modules.made_on(sites.at(found.location), scene, sites)

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            f"the state of this `{meeting.name}` stays on cpu: the metric is never moved to {meeting.wanted}",
            help="Move the metric like the model",
            fix=move_created(meeting),
        )
