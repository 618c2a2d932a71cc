"""The rule `moved-behind-your-back`."""

from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Action, Holder, Scene
from samedevice.rules import mending, mending_modules
from samedevice.rules.questions import birth, called, is_mixed, last, module_of, place, short, story, wanted
from samedevice.rules.reading import told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class MovedBehindYourBack(Rule):
    """Checks for modules and tensors that a helper moves as a side effect.

    ## Why is this bad?
    `Module.to` and `Module.cpu` work in place: a function that "just" evaluates on the GPU and goes back to the CPU, or
    saves a copy with `model.cpu()`, moves the caller's model as well. A method that stores a moved tensor back
    into its attribute does the same to everybody who shares the object.

    ## Example
    ```python
    import torch

    def export(model):
        model.cpu()
        return [p.detach().numpy() for p in model.parameters()]

    model = torch.nn.Linear(4, 2).to("cuda")
    x = torch.rand(3, 4, device="cuda")
    model(x)
    weights = export(model)
    print(model(x).sum().item(), len(weights))
    ```

    Use instead:
    ```python
    import torch

    def export(model):
        return [p.detach().cpu().numpy() for p in model.parameters()]

    model = torch.nn.Linear(4, 2).to("cuda")
    x = torch.rand(3, 4, device="cuda")
    model(x)
    weights = export(model)
    print(model(x).sum().item(), len(weights))
    ```

    ## Fix safety
    Reading alone gives no fix. `check --fix` tries an unsafe one and keeps it when a run proves it.
    The helper has to copy instead of moving, or the caller moves the model back.
    """

    name = "moved-behind-your-back"
    group = "state over time"
    engines = ("check", "lint")
    specificity = 73
    lesson = "`module.cpu()` and `module.to()` move the one module that everybody shares: a helper works on copies, or puts things back."

    def recognise(self, scene: Scene) -> Recognition | None:
        """The module was in the right place and a later move took it away; or its partner was moved by a method."""
        culprit, module = scene.culprit, module_of(scene)
        if not is_mixed(scene) or culprit is None:
            return None
        if module is None:
            return self._partner(scene)
        move = last(module.moves)
        earlier = [m for m in module.moves if m is not move]
        if move is None or move.location is None or move.device != culprit.device:
            return None
        if not any(m.device == scene.wanted for m in earlier) or module.copied is not None:
            return None
        name = module.root or module.owner
        back = next(m for m in reversed(earlier) if m.device == scene.wanted)
        return Recognition(
            message=f"`{short(move.expression or move.function)}` takes `{name}` back to {culprit.device} while it is still used on {wanted(scene)}",
            location=move.location,
            confidence=Confidence.CERTAIN,
            evidence=story(
                scene,
                (back, f"`{name}` moves to {back.device} here"),
                (move, f"and back to {move.device} here, in `{move.function_name}`"),
            ),
            help=f"Move the model back to {wanted(scene)} afterwards, or let `{move.function_name}` work on a copy",
            cause=("moved", move.location.path, move.location.line),
        )

    def _partner(self, scene: Scene) -> Recognition | None:
        """An attribute of an object that one of its methods moved, met by a tensor brought to the host."""
        stray = scene.stray_operand
        if (
            stray is None
            or stray.placed is None
            or stray.placed.action is not Action.MOVED
            or stray.device != "cpu"
        ):
            return None
        for other in scene.operands:
            origin = other.origin
            if (
                origin.holder is not Holder.ATTRIBUTE
                or origin.holder_is_module
                or origin.device != scene.wanted
            ):
                continue
            moved = origin.placed
            if (
                moved is None
                or moved.action is not Action.MOVED
                or moved.location is None
                or moved.function_name == "__init__"
            ):
                continue
            name = called(origin, scene)
            return Recognition(
                message=f"`{moved.function_name}` moves `{origin.owner or name}` to {origin.device} as a side effect, while others use it on cpu",
                location=moved.location,
                confidence=Confidence.LIKELY,
                evidence=story(
                    scene,
                    birth(origin),
                    (moved, f"`{origin.owner or name}` is replaced by a copy on {origin.device} here"),
                    (stray.placed, f"`{stray.shown}` is brought to cpu here"),
                ),
                help=f"Move to the attribute's own device (`.to({name}.device)`), or do not store the moved copy",
            )
        return None

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        stray = scene.stray_operand
        if module_of(scene) is None and stray is not None:
            names = [
                f"{text}.device"
                for o in scene.operands
                if o.origin.placed is not None and o.device == scene.wanted
                for text in (called(o.origin, scene), o.origin.path)
                if text is not None and mending.is_path(text)
            ]
            yield from mending.other_device(sites.at(place(stray.placed)), scene.wanted, names)
            yield from mending.at_use(scene, sites)
        else:
            yield from mending_modules.moved_back(sites.at(found.location))

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            f"`{meeting.stray}` was moved to {meeting.device} here, and is used with {meeting.wanted} afterwards",
            help=f"Move it back to {meeting.wanted} before it is used again",
        )
