"""The rule `nested-tensor-missed`."""

from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Action, Holder, Operand, Relative, Scene
from samedevice.rules import mending, mending_parts
from samedevice.rules.questions import birth, candidates, is_mixed, short, story, wanted
from samedevice.rules.reading import told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class NestedTensorMissed(Rule):
    """Checks for batch objects whose move leaves some of their tensors behind.

    ## Why is this bad?
    A batch of one's own (a dataclass, a dictionary of dictionaries, a list in a tuple) is moved by code of
    one's own, and that code has to reach every tensor in it. A comprehension over the top level passes by
    what lies one level deeper; a `to` method forgets the field that was added last month.

    ## Example
    ```python
    import torch

    model = torch.nn.Embedding(10, 4).to("cuda")
    batch = {"weight": torch.ones(3, 4), "inputs": {"ids": torch.tensor([1, 2, 3])}}
    batch = {k: v.to("cuda") if isinstance(v, torch.Tensor) else v for k, v in batch.items()}
    print((model(batch["inputs"]["ids"]) * batch["weight"]).sum().item())
    ```

    Use instead:
    ```python
    import torch

    from samedevice import to_device

    model = torch.nn.Embedding(10, 4).to("cuda")
    batch = {"weight": torch.ones(3, 4), "inputs": {"ids": torch.tensor([1, 2, 3])}}
    batch = to_device(batch, "cuda")
    print((model(batch["inputs"]["ids"]) * batch["weight"]).sum().item())
    ```

    ## Fix safety
    Reading alone gives no fix. `check --fix` tries an unsafe one and keeps it when a run proves it.
    Which fields belong on the GPU is for the author to say.
    """

    name = "nested-tensor-missed"
    group = "data flow"
    engines = ("check", "lint")
    specificity = 78
    lesson = "Moving a container moves nothing by itself: the code that moves a batch has to reach every tensor in it, at every depth."

    def recognise(self, scene: Scene) -> Recognition | None:
        """A neighbour in the same record was moved, by one piece of code; this one was not."""
        if not is_mixed(scene):
            return None
        return next((r for r in (self._of(o, scene) for o in candidates(scene)) if r is not None), None)

    def _of(self, culprit: Operand, scene: Scene) -> Recognition | None:
        if culprit.holder is not Holder.CONTAINER or culprit.path is None:
            return None
        if culprit.placed is not None and culprit.placed.action is Action.MOVED:
            return None  # no move forgot it: one brought it there
        neighbours = [r for r in culprit.relatives if not r.same_data and _moved(r, scene)]
        if not neighbours:
            return None
        moved = neighbours[0].born
        assert moved is not None
        if moved.location is None:
            return None
        return Recognition(
            message=f"this move leaves `{culprit.path}` on {culprit.device}: it reaches `{neighbours[0].path}`, but not every tensor of the batch",
            location=moved.location,
            confidence=Confidence.CERTAIN,
            evidence=story(
                scene,
                birth(culprit),
                (
                    moved,
                    f"`{neighbours[0].path}` is moved to {neighbours[0].device} here, `{culprit.path}` is not",
                ),
            ),
            help=f"Move `{short(culprit.path)}` to {wanted(scene)} as well; `samedevice.to_device` moves any nesting",
            suggestion=f"{culprit.path.partition('.')[0].partition('[')[0]} = samedevice.to_device({culprit.path.partition('.')[0].partition('[')[0]}, device)",
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        held = [o.path for o in candidates(scene) if o.holder is Holder.CONTAINER and o.path is not None]
        for path in held:
            yield from mending_parts.field_beside(sites.at(found.location), path)
            yield from mending_parts.tuples_as_well(sites.at(found.location))
        yield from mending.at_use(scene, sites)

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            f"the move leaves `{meeting.name}` behind on cpu",
            help="Move every tensor of the structure",
        )


def _moved(relative: Relative, scene: Scene) -> bool:
    born = relative.born
    return relative.device == scene.wanted and born is not None and born.action is Action.MOVED
