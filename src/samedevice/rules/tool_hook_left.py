"""The rule `tool-hook-left`."""

from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.scene import Scene
from samedevice.model.tool_hook import Part, ToolHook
from samedevice.rules import mending
from samedevice.rules.questions import is_mixed, place, short, story, wanted
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class ToolHookLeft(Rule):
    """Checks for hooks that are still registered and move tensors away from where the model is.

    ## Why is this bad?
    A hook that counts operations, collects features or aligns devices stays on its module until somebody removes it.
    When it returns a tensor, that takes the place of the module's output: a hook that copies outputs to the CPU makes
    the next layer fail. A hook that remembers a device sends tensors there long after the module has moved
    elsewhere.

    ## Example
    ```python
    import torch

    features = []

    def collect(module, args, output):
        output = output.cpu()
        features.append(output)
        return output

    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)).to("cuda")
    model[0].register_forward_hook(collect)
    print(model(torch.rand(3, 4, device="cuda")).sum().item())
    ```

    Use instead:
    ```python
    import torch

    features = []

    def collect(module, args, output):
        features.append(output.cpu())

    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)).to("cuda")
    model[0].register_forward_hook(collect)
    print(model(torch.rand(3, 4, device="cuda")).sum().item())
    ```

    ## Fix safety
    The fix is unsafe: a hook of your own that returns what it moved returns nothing any more. For hooks of other
    packages there is no automatic fix.
    Keep what `register_forward_hook` returns and call its `remove()` when the tool is done; a hook that only looks
    returns nothing. Hooks of accelerate are taken off by `remove_hook_from_module(module, recurse=True)`.
    """

    name = "tool-hook-left"
    group = "offload, meta, tools"
    engines = ("check",)
    specificity = 94
    lesson = "A hook stays until it is removed, and what it returns takes the place of the output."

    def recognise(self, scene: Scene) -> Recognition | None:
        """A hook moved a tensor, mixes devices itself, or sends inputs to where its module no longer is."""
        hook = scene.extra.get("hook")
        if not isinstance(hook, ToolHook):
            return None
        if hook.part is Part.OUTLIVED and not hook.spread:
            return self._outlived(scene, hook)
        if not is_mixed(scene):
            return None
        if hook.part is Part.MOVED and hook.operand == scene.stray:
            return self._moved(scene, hook)
        if hook.part is Part.INSIDE:
            return self._inside(scene, hook)
        return None

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        hook = scene.extra.get("hook")
        moved = hook.moved if isinstance(hook, ToolHook) and hook.part is Part.MOVED else None
        if moved is not None:
            yield from mending.nothing_returned(sites.at(moved.location), "Return nothing from the hook")

    def _outlived(self, scene: Scene, hook: ToolHook) -> Recognition | None:
        moved = hook.moved
        if moved is None or moved.location is None:
            return None
        return Recognition(
            message=f"a hook of {hook.maker} is still on `{hook.module}`: it sends the inputs to {hook.device}, where the module no longer is",
            location=moved.location,
            confidence=Confidence.CERTAIN,
            evidence=story(
                scene,
                (hook.attached, f"{hook.maker} hangs its hooks on the modules here"),
                (moved, f"`{hook.module}` moves to {moved.device} here, its hook stays"),
            ),
            help=f"Remove the hook before the move: `accelerate.hooks.remove_hook_from_module({hook.module}, recurse=True)`",
            cause=("outlived", moved.location.path, moved.location.line),
        )

    def _moved(self, scene: Scene, hook: ToolHook) -> Recognition | None:
        location = place(hook.attached, hook.moved)
        if location is None:
            return None
        whose = f"of {hook.tool} " if hook.tool else ""
        return Recognition(
            message=f"the hook `{hook.name}` {whose}on `{hook.module}` puts a copy on {hook.device} in the place of what it was given",
            location=location,
            confidence=Confidence.CERTAIN,
            evidence=story(
                scene,
                (hook.attached, f"`{hook.name}` is registered on `{hook.module}` here"),
                (hook.moved, f"it makes a copy on {hook.device} here, and returns it"),
            ),
            help="Remove the hook when it is done (`handle.remove()`); a hook that only looks returns nothing",
            cause=("hook", location.path, location.line),
        )

    def _inside(self, scene: Scene, hook: ToolHook) -> Recognition:
        return Recognition(
            message=f"the hook `{short(hook.name)}` of {hook.tool}, still registered on `{hook.module}`, mixes devices: "
            f"what it keeps is not on {wanted(scene)}",
            location=place(hook.attached) or scene.raised,
            confidence=Confidence.LIKELY,
            evidence=story(scene, (hook.attached, f"{hook.tool} registers its hooks here")),
            help=f"Remove the hooks of {hook.tool} before the model moves, or run it when the model is where it stays",
        )
