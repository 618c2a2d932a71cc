"""The rule `offload-hook-bypassed`."""

from samedevice.model.diagnostic import Confidence
from samedevice.model.scene import Kind, Scene
from samedevice.model.tool_hook import Part, ToolHook
from samedevice.rules.questions import short, story
from samedevice.rules.rule import Recognition, Rule


class OffloadHookBypassed(Rule):
    """Checks for weights of an offloaded or dispatched model that are used without the hook that brings them.

    ## Why is this bad?
    `device_map=`, `cpu_offload`, `dispatch_model` and `enable_model_cpu_offload` hang a hook on modules. It brings
    weights and inputs together when the *module is called*, and takes the weights away again: between calls an
    offloaded weight is on the CPU, or on the meta device without data. Reading `layer.weight`, calling a submodule
    of what the hook is on, or a method other than `forward`, goes past the hook. So does `model.to("cuda")`: the
    hooks stay, and keep sending the inputs to where the weights were.

    ## Example
    ```python
    import torch
    from accelerate import cpu_offload

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Linear(4, 4)
            self.head = torch.nn.Linear(4, 2)

        def forward(self, x):
            return torch.nn.functional.linear(self.body(x), self.head.weight, self.head.bias)

    model = cpu_offload(Net(), "cuda")
    print(model(torch.rand(3, 4, device="cuda")).shape)
    ```

    Use instead:
    ```python
    import torch
    from accelerate import cpu_offload

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Linear(4, 4)
            self.head = torch.nn.Linear(4, 2)

        def forward(self, x):
            return self.head(self.body(x))

    model = cpu_offload(Net(), "cuda")
    print(model(torch.rand(3, 4, device="cuda")).shape)
    ```

    ## Fix safety
    There is no automatic fix: which call belongs there is for you to say.
    Call the module that owns the weight, or take the hooks off first with
    `accelerate.hooks.remove_hook_from_module(model, recurse=True)`.
    """

    name = "offload-hook-bypassed"
    group = "offload, meta, tools"
    engines = ("check",)
    specificity = 96
    lesson = "An offloaded weight is where it belongs only while its module is called: call the module, do not reach for the weight."

    def recognise(self, scene: Scene) -> Recognition | None:
        """A weight that a hook looks after was used while the hook did not run, or moved under it."""
        if scene.kind is Kind.OFFLOAD:
            return self._refused(scene)
        hook = scene.extra.get("hook")
        if not isinstance(hook, ToolHook):
            return None
        if hook.part is Part.BYPASSED:
            return self._bypassed(scene, hook)
        if hook.part is Part.OUTLIVED and hook.spread:
            return self._moved(scene, hook)
        return None

    def _bypassed(self, scene: Scene, hook: ToolHook) -> Recognition:
        where = scene.operands[hook.operand or 0].device
        if where == "meta":
            state = f"`{hook.weight}` has no data here: {hook.maker} offloaded it"
        elif hook.offloads:
            state = f"`{hook.weight}` is on {where} here: {hook.maker} offloaded it"
        else:
            state = f"`{hook.weight}` is on {where}, where {hook.maker} put it"
        brings = f"to {hook.device}" if hook.offloads else f"the inputs to {hook.device}"
        return Recognition(
            message=f"{state}, and its hook brings {'it ' if hook.offloads else ''}{brings} only when `{hook.module}` is called",
            location=scene.raised,
            confidence=Confidence.CERTAIN if hook.offloads else Confidence.LIKELY,
            evidence=story(scene, (hook.attached, f"{hook.maker} hangs its hooks on the modules here")),
            help=f"Call `{hook.module}(…)` instead of using what is in it, or remove the hooks with "
            "`accelerate.hooks.remove_hook_from_module(model, recurse=True)`",
        )

    def _moved(self, scene: Scene, hook: ToolHook) -> Recognition | None:
        moved = hook.moved
        if moved is None or moved.location is None:
            return None
        text = short(moved.expression or moved.function)
        return Recognition(
            message=f"`{text}` moves a model that {hook.maker} has spread over devices: the hook of "
            f"`{hook.module}` still sends its inputs to {hook.device}",
            location=moved.location,
            confidence=Confidence.CERTAIN,
            evidence=story(
                scene,
                (hook.attached, f"{hook.maker} hangs its hooks on the modules here"),
                (moved, f"the weights move to {moved.device} here, the hooks stay"),
            ),
            help="Leave the model where it was dispatched to, or remove the hooks first with "
            "`accelerate.hooks.remove_hook_from_module(model, recurse=True)`",
            cause=("moved", moved.location.path, moved.location.line),
        )

    def _refused(self, scene: Scene) -> Recognition:
        source = scene.frames[-1].source if scene.frames else None
        return Recognition(
            message=f"`{short(source or scene.operator)}` moves a model whose weights are offloaded: its hooks bring them to the GPU when it is called",
            location=scene.raised,
            confidence=Confidence.CERTAIN,
            evidence=story(scene),
            help="Do not move it: call it where it is; or load it without offloading, onto one device",
        )
