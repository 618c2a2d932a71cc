"""The rule `split-without-move`."""

from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Action, Entry, Holder, Operand, Scene
from samedevice.rules import mending, mending_modules
from samedevice.rules.questions import birth, is_mixed, moved, same_line, short, story, wanted
from samedevice.rules.reading import device_name, move_argument, told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class SplitWithoutMove(Rule):
    """Checks for models cut over several GPUs whose activations do not hop where the cut is.

    ## Why is this bad?
    A model whose parts are on different GPUs needs a move of the activations at each cut: also for
    residual connections that jump over it, and for everything else that goes in at the other side. A
    device map that cuts through one layer leaves both ends of its residual on different GPUs.

    ## Example
    ```python
    import torch

    first = torch.nn.Linear(4, 4).to("cuda:0")
    second = torch.nn.Linear(4, 4).to("cuda:1")
    x = torch.rand(2, 4, device="cuda:0")
    print(second(first(x)).sum().item())
    ```

    Use instead:
    ```python
    import torch

    first = torch.nn.Linear(4, 4).to("cuda:0")
    second = torch.nn.Linear(4, 4).to("cuda:1")
    x = torch.rand(2, 4, device="cuda:0")
    print(second(first(x).to("cuda:1")).sum().item())
    ```

    ## Fix safety
    The fix is unsafe: it moves the activation where it enters the other GPU's part.
    """

    name = "split-without-move"
    group = "several GPUs"
    engines = ("check", "lint")
    specificity = 50
    lesson = "Between parts on different GPUs every tensor hops by an explicit move, residuals included; keep a layer with a residual on one GPU."

    def recognise(self, scene: Scene) -> Recognition | None:
        """Computed tensors of two GPUs meet, or one meets a parameter on the other."""
        stray = scene.stray_operand
        if not is_mixed(scene) or stray is None or not _on_gpus(scene):
            return None
        others = [o for o in scene.operands if o.device == scene.wanted]
        split = scene.extra.get("device_map")
        from samedevice.model.scene import Decision

        if isinstance(split, Decision) and _computed(stray) and all(_computed(o) for o in others):
            return Recognition(
                message=f"this map cuts through a layer: `{short(stray.shown, 40)}` is on {stray.device}, `{short(others[0].shown, 40)}` on {wanted(scene)}",
                location=split.location,
                confidence=Confidence.LIKELY,
                evidence=story(
                    scene, (split.steps[0] if split.steps else None, "the parts are put on their GPUs here")
                ),
                help="Keep each layer with a residual connection on one GPU",
                cause=("split", split.location.path, split.location.line),
            )
        if not _computed(stray) and stray.holder not in (Holder.LOCAL, Holder.TEMPORARY, Holder.CONTAINER):
            return None
        if not (_computed(stray) or any(o.holder in (Holder.PARAMETER, Holder.BUFFER) for o in others)):
            return None
        entrance = _entrance(stray, scene)
        return Recognition(
            message=f"`{short(stray.shown, 50)}` arrives on {stray.device}, but this part of the model is on {wanted(scene)}",
            location=scene.raised if entrance is None else entrance.used.location or scene.raised,
            confidence=Confidence.LIKELY,
            evidence=story(scene, birth(stray)),
            help=f"Move it to {wanted(scene)} where it enters this part",
            suggestion=moved(stray.expression if entrance is None else entrance.name, f'"{scene.wanted}"'),
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        if "device_map" in scene.extra:
            yield from mending_modules.whole_layers(sites.at(found.location))
        yield from mending.at_use(scene, sites)
        yield from mending.partner_to_stray(scene, sites)

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            f"this puts parts of one `forward` on {meeting.device} and {meeting.wanted}, and nothing moves what flows between them",
            help="Keep what is added together on one GPU, or move it where the devices change",
            fix=move_argument(meeting, device_name(meeting))
            if meeting.met.location == meeting.culprit.location
            else None,
        )


def _entrance(stray: Operand, scene: Scene) -> Entry | None:
    """Where a function that is still running hands the tensor to the part that fails."""
    entry = stray.entry
    at = None if entry is None else entry.used.location
    if at is None or not stray.expression or not stray.expression.isidentifier():
        return None
    running = any(same_line(frame.location, at) for frame in scene.frames)
    return entry if running and not same_line(at, scene.raised) else None


def _on_gpus(scene: Scene) -> bool:
    return len({o.device for o in scene.operands if o.device.startswith("cuda")}) > 1


def _computed(operand: Operand) -> bool:
    return bool(operand.provenance) and operand.provenance[-1].action is Action.DERIVED
