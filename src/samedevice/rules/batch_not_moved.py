"""The rule `batch-not-moved`."""

from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Action, Operand, Scene
from samedevice.model.tool_hook import Part, ToolHook
from samedevice.rules import mending, mending_parts
from samedevice.rules.questions import (
    MADE,
    STATE,
    birth,
    candidates,
    is_mixed,
    moved,
    place,
    same_line,
    short,
    story,
    wanted,
)
from samedevice.rules.reading import batch_fix, handed, told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class BatchNotMoved(Rule):
    """Checks for batches that are handed to a model on a GPU without being moved there.

    ## Why is this bad?
    A `DataLoader` hands out its batches in host memory, and moving the model does not move the data.
    The first layer that meets a batch raises "Expected all tensors to be on the same device".
    Where the step is missing only in the evaluation loop, the program dies after the first epoch.

    ## Example
    ```python
    import torch
    from torch.utils.data import DataLoader

    model = torch.nn.Linear(4, 2).to("cuda")
    for batch in DataLoader(torch.rand(8, 4), batch_size=4):
        print(model(batch).sum().item())
    ```

    Use instead:
    ```python
    import torch
    from torch.utils.data import DataLoader

    model = torch.nn.Linear(4, 2).to("cuda")
    for batch in DataLoader(torch.rand(8, 4), batch_size=4):
        batch = batch.to("cuda")
        print(model(batch).sum().item())
    ```

    ## Fix safety
    The fix is unsafe: it moves the batch at the head of the loop, and code in the loop that needs it on
    the host (numpy, plotting) has to take it back.
    """

    name = "batch-not-moved"
    group = "data flow"
    engines = ("check", "lint")
    specificity = 54
    lesson = "Moving the model does not move the data: every batch is moved at the head of the loop, in training and in evaluation."

    def recognise(self, scene: Scene) -> Recognition | None:
        """Data that comes out of a loop, a loader or a container, of which nothing was moved."""
        if not is_mixed(scene):
            return None
        handed_back = self._handed_back(scene)
        if handed_back is not None:
            return handed_back
        return next((r for r in (self._of(o, scene) for o in candidates(scene)) if r is not None), None)

    def _handed_back(self, scene: Scene) -> Recognition | None:
        """A dispatched model gives its outputs back where its inputs were."""
        hook = scene.extra.get("hook")
        if not isinstance(hook, ToolHook) or hook.part is not Part.GAVE_BACK or hook.operand != scene.stray:
            return None
        step = hook.moved
        if step is None or step.location is None:
            return None
        return Recognition(
            message=f"the inputs of `{hook.module}` are on {hook.device}, so {hook.tool} brings its outputs back to "
            f"{hook.device}; they are used on {wanted(scene)}",
            location=step.location,
            confidence=Confidence.LIKELY,
            evidence=story(
                scene, (step, f"the outputs are brought back to {hook.device} here, where the inputs are")
            ),
            help="Move the inputs to the model's first device, and what meets the outputs to theirs (`labels.to(outputs.device)`)",
        )

    def _of(self, culprit: Operand, scene: Scene) -> Recognition | None:
        if culprit.device != "cpu" or culprit.holder in STATE:
            return None
        entry, born = culprit.entry, culprit.born
        batched = bool(culprit.provenance) and culprit.provenance[-1].action is Action.BATCHED
        if entry is None:
            if not batched or born is None or born.location is None:
                return None
            return Recognition(
                message=f"the batch is used on {wanted(scene)} as the DataLoader hands it out, on cpu",
                location=born.location,
                confidence=Confidence.LIKELY,
                evidence=story(scene, birth(culprit)),
                help=f"Move the batch to {wanted(scene)} at the head of the loop"
                if born.package is None
                else f"Tell {born.package} that batches go to {wanted(scene)}, or move them where they are made (`collate_fn`)",
            )
        if not (batched or entry.loader or entry.how in ("for", "unpack", "item", "slice")):
            return None
        if entry.how == "unpack" and born is not None and born.action in MADE:
            bound = None if entry.bound is None else entry.bound.location
            on_the_spot = bound is not None and born.location is not None and same_line(born.location, bound)
            if on_the_spot or entry.function == "forward":
                return None  # the function, or the model, made it itself: no data that was handed to it
        from_assignment = entry.how in ("item", "assign", "slice") and entry.bound is not None
        location = place(entry.bound if from_assignment else None, entry.used)
        if location is None:
            return None
        name = short(entry.name, 40)
        source = f" out of `{short(entry.source, 40)}`" if entry.source and entry.how == "for" else ""
        return Recognition(
            message=f"`{name}` comes{source} on cpu and is used on {wanted(scene)} without being moved",
            location=location,
            confidence=Confidence.CERTAIN if batched or entry.loader else Confidence.LIKELY,
            evidence=story(
                scene,
                birth(culprit) if not batched else None,
                (entry.bound, f"`{name}` gets its value here, on cpu"),
                (entry.used, f"`{name}` is handed on here, still on cpu"),
            ),
            help=f"Move `{name}` to {wanted(scene)} before it is used",
            suggestion=_suggestion(scene, name),
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        entry = next((o.entry for o in candidates(scene) if o.entry is not None), None)
        if entry is not None:
            yield from mending_parts.batch(scene, sites, entry.name, entry.bound, entry.used)
        else:
            yield from mending_parts.whole_batch(scene, sites, found.location)
        yield from mending.at_use(scene, sites)

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            f"`{handed(meeting)}` comes on cpu and is used on {meeting.wanted} without being moved",
            help=f"Move it to {meeting.wanted} before it is used",
            fix=batch_fix(meeting),
        )


def _suggestion(scene: Scene, name: str) -> str | None:
    if not name.isidentifier():
        return moved(name, scene.anchor or "device")
    return f"{name} = {moved(name, scene.anchor or 'device')}"
