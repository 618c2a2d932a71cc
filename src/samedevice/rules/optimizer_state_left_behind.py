"""The rule `optimizer-state-left-behind`."""

from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Action, Holder, Scene, Step
from samedevice.rules import mending, mending_order, mending_parts
from samedevice.rules.questions import arrival, birth, is_mixed, meeting, place, short, story, wanted
from samedevice.rules.reading import told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class OptimizerStateLeftBehind(Rule):
    """Checks for optimizer state that stays on the CPU while the parameters are on a GPU.

    ## Why is this bad?
    An optimizer that is merely *constructed* before `model.to(device)` is fine: `Module.to` keeps the Parameter
    objects, and most optimizers allocate their state at the first step. Wrong is state that already exists when
    the model moves (Adagrad allocates in its constructor; a training step or `load_state_dict` came first), and
    state written by hand from tensors on the CPU.

    ## Example
    ```python
    import torch

    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.Adagrad(model.parameters())
    model.to("cuda")
    model(torch.rand(3, 4, device="cuda")).sum().backward()
    optimizer.step()
    ```

    Use instead:
    ```python
    import torch

    model = torch.nn.Linear(4, 2)
    model.to("cuda")
    optimizer = torch.optim.Adagrad(model.parameters())
    model(torch.rand(3, 4, device="cuda")).sum().backward()
    optimizer.step()
    ```

    ## Fix safety
    Reading alone gives no fix. `check --fix` tries an unsafe one and keeps it when a run proves it.
    The order of the move and of what allocates the state has to change.
    """

    name = "optimizer-state-left-behind"
    group = "state over time"
    engines = ("check", "lint")
    specificity = 90
    lesson = "`Module.to` moves parameters, not the optimizer's state: move the model before state is allocated or loaded."

    def recognise(self, scene: Scene) -> Recognition | None:
        """A tensor out of an optimizer's state."""
        culprit = scene.culprit
        if not is_mixed(scene) or culprit is None or culprit.holder is not Holder.OPTIMIZER_STATE:
            return None
        key = short(culprit.path or "the state")
        if culprit.kept is not None and culprit.kept.location is not None:
            return Recognition(
                message=f"the optimizer's state is written by hand with a tensor on {culprit.device}, but its parameter is on {wanted(scene)}",
                location=culprit.kept.location,
                confidence=Confidence.CERTAIN,
                evidence=story(
                    scene, arrival(culprit), (culprit.kept, "written into the optimizer's state here")
                ),
                help="Move the tensor to its parameter's device (`p.device`), or use `optimizer.load_state_dict`, which does it",
            )
        placed = culprit.provenance[-1] if culprit.provenance else None
        if placed is not None and placed.action is Action.MOVED and placed.location is not None:
            return Recognition(
                message=f"the optimizer's state is moved to {culprit.device} here, but its parameter is on {wanted(scene)}",
                location=placed.location,
                confidence=Confidence.CERTAIN,
                evidence=story(scene, birth(culprit), (placed, f"the state moves to {culprit.device} here")),
                help=f"Move the state to its parameter's device, {wanted(scene)}",
            )
        made, move = _step(scene, "optimizer_made"), _step(scene, "state_moved")
        location = None
        if move is not None:
            # State that a constructor or a checkpoint brought: the order is wrong there. State that steps
            # have allocated: the move is wrong.
            started = _step(scene, "state_loaded") or _step(scene, "state_origin")
            frame = meeting(started, move) if started is not None else None
            location = frame.location if frame is not None else move.location
        location = location or place(made, culprit.born)
        if location is None:
            return None
        return Recognition(
            message=f"`{key}` was allocated on {culprit.device} before the parameters moved to {wanted(scene)}, and `Module.to` does not move it",
            location=location,
            confidence=Confidence.CERTAIN if move is not None else Confidence.LIKELY,
            evidence=story(
                scene,
                (made, "the optimizer is made here"),
                (culprit.provenance[-1], f"the state comes to be on {culprit.device} here"),
                (move, f"the parameters move to {wanted(scene)} here; the state stays"),
            ),
            help="Move the model before the optimizer allocates or loads its state",
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        culprit = scene.culprit
        if culprit is not None and culprit.kept is not None:
            yield from mending_parts.state_by_hand(sites.at(found.location), scene.wanted)
            return
        move = _step(scene, "state_moved")
        if move is not None:
            started = _step(scene, "state_loaded") or _step(scene, "state_origin")
            started = started or _step(scene, "optimizer_made")
            here = None if started is None else meeting(started, move)
            there = None if started is None else meeting(move, started)
            yield from mending_order.reorder(
                sites,
                found.location if here is None else here.location,
                move.location if there is None else there.location,
                "Move the model before the optimizer's state is made",
            )
        else:
            yield from mending.other_device(sites.at(found.location), scene.wanted)

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        if "how" not in meeting.facts:
            return told(
                meeting,
                f"optimizer state on {meeting.device} is put beside a parameter on {meeting.wanted}",
                help="Put it on the parameter's device",
            )
        how = "loaded" if meeting.facts["how"] == "load_state_dict" else "allocated"
        return told(
            meeting,
            f"the state of `{meeting.name}` is {how} before the parameters move to {meeting.wanted}, and stays behind",
            help="Move the model first",
        )


def _step(scene: Scene, name: str) -> Step | None:
    found = scene.extra.get(name)
    return found if isinstance(found, Step) else None
