"""The rule `copy-left-behind`."""

from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Holder, Scene
from samedevice.rules import mending, mending_modules, mending_order
from samedevice.rules.questions import (
    birth,
    called,
    is_mixed,
    last,
    meeting,
    module_of,
    moved,
    place,
    set_apart,
    story,
    to_gpu,
    wanted,
)
from samedevice.rules.reading import told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class CopyLeftBehind(Rule):
    """Checks for copies of a model (EMA, teacher, target network, snapshot) that stay on the CPU.

    ## Why is this bad?
    A copy is taken where the model is at that moment. If the model moves afterwards, the copy does not move with it,
    and the first update that mixes the two raises. A copy that is kept on the CPU on purpose needs
    the other side brought over in the update.

    ## Example
    ```python
    import copy

    import torch

    model = torch.nn.Linear(4, 2)
    average = copy.deepcopy(model)
    model.to("cuda")
    with torch.no_grad():
        for a, p in zip(average.parameters(), model.parameters()):
            a.mul_(0.9).add_(p, alpha=0.1)
    ```

    Use instead:
    ```python
    import copy

    import torch

    model = torch.nn.Linear(4, 2)
    model.to("cuda")
    average = copy.deepcopy(model)
    with torch.no_grad():
        for a, p in zip(average.parameters(), model.parameters()):
            a.mul_(0.9).add_(p, alpha=0.1)
    ```

    ## Fix safety
    Reading alone gives no fix. `check --fix` tries an unsafe one and keeps it when a run proves it.
    The copy goes behind the move, or the update crosses the devices.
    """

    name = "copy-left-behind"
    group = "state over time"
    engines = ("check", "lint")
    specificity = 76
    lesson = "A copy of a model lives where the model was when it was copied: move first, copy second."

    def recognise(self, scene: Scene) -> Recognition | None:
        """A deep copy of a module, or cloned weights, taken before the model moved."""
        culprit, module = scene.culprit, module_of(scene)
        if not is_mixed(scene) or culprit is None:
            return None
        if module is None or module.copied is None:
            return self._cloned(scene)
        own = last(module.moves)
        if own is not None and own.device == culprit.device and module.decision is not None:
            if module.decision.how not in ("literal", "global", "choice", "argument"):
                return None
            others = [o for o in scene.operands if o.device == scene.wanted]
            other = others[0].expression if others else None
            return Recognition(
                message=f"the copy is kept on {culprit.device} on purpose, but this update mixes it with tensors on {wanted(scene)}",
                location=scene.raised,
                confidence=Confidence.LIKELY,
                evidence=story(
                    scene,
                    (module.copied, "the copy is made here"),
                    (own, f"the copy is put on {culprit.device} here"),
                ),
                help=f"Bring the other side over in the update, or keep the copy on {wanted(scene)}",
                suggestion=moved(other, f"{scene.stray_operand.expression}.device")
                if scene.stray_operand and scene.stray_operand.expression and other
                else None,
            )
        move = to_gpu(module.original_moves)
        if move is None:
            return None
        frame = set_apart(module.copied, move, scene)
        location = frame.location if frame is not None else module.copied.location
        if location is None:
            return None
        return Recognition(
            message=f"the copy `{module.root or module.owner}` is taken before the model moves to {move.device}, so it stays on {culprit.device}",
            location=location,
            confidence=Confidence.CERTAIN,
            evidence=story(
                scene,
                (module.copied, f"copied here, on {culprit.device}"),
                (move, f"the original moves to {move.device} here"),
            ),
            help=f"Take the copy after the move, or move it to {wanted(scene)} as well",
            cause=("copy", location.path, location.line),
        )

    def _cloned(self, scene: Scene) -> Recognition | None:
        """A dictionary or list of cloned weights."""
        culprit = scene.culprit
        assert culprit is not None
        weight = next((r for r in culprit.relatives if r.same_source and r.holder is Holder.PARAMETER), None)
        if (
            weight is None
            or weight.device != scene.wanted
            or culprit.holder in (Holder.PARAMETER, Holder.BUFFER)
        ):
            return None
        location = place(culprit.host_made, culprit.kept, culprit.born)
        if location is None:
            return None
        return Recognition(
            message=f"`{called(culprit, scene)}` is a copy of `{weight.owner or weight.path}` taken before that moved to {weight.device}",
            location=location,
            confidence=Confidence.CERTAIN,
            evidence=story(
                scene,
                birth(culprit),
                (culprit.host_made, "the copies are taken here"),
                (weight.born, f"the model moves to {weight.device} here; the copies stay"),
            ),
            help=f"Take the copies after the move, or move them to {wanted(scene)}",
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        module, culprit = module_of(scene), scene.culprit
        moves = () if module is None else module.original_moves
        moved, copied = to_gpu(moves), None if module is None else module.copied
        if moved is not None and copied is not None:
            there = meeting(moved, copied)
            yield from mending_order.reorder(
                sites,
                found.location,
                there.location if there else moved.location,
                "Take the copy after the move",
            )
            yield from mending_order.original_first(sites, copied, moved)
        elif module is None and culprit is not None:
            born = next((r.born for r in culprit.relatives if r.same_source), None)
            host = culprit.host_made
            there = meeting(born, host) if born is not None and host is not None else None
            move = there.location if there is not None else place(born)
            yield from mending_order.reorder(sites, found.location, move, "Take the copies after the move")
        else:
            yield from mending.partner_to_stray(scene, sites)
        yield from mending_modules.made_on(sites.at(found.location), scene, sites)
        yield from mending.at_use(scene, sites)

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            f"the copy is on {meeting.device} while what it was copied from is on {meeting.wanted}",
            help=f"Copy after the move, or move the copy to {meeting.wanted} too",
        )
