"""The rule `kernel-on-other-gpu`."""

from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.scene import Kind, Scene
from samedevice.rules import mending
from samedevice.rules.questions import arrival, short, story, wanted
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class KernelOnOtherGpu(Rule):
    """Checks for kernels of the program's own that are launched on another GPU than their tensors'.

    ## Why is this bad?
    PyTorch's operators switch to the GPU of their operands; a Triton kernel is launched on the current one. With
    its tensors on `cuda:1` and `cuda:0` current it reads memory of another GPU: an illegal memory access, reported
    at some later line, or a slow detour where the GPUs can reach each other's memory. With one GPU all is well.

    ## Example
    ```python
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def double(x, size, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x + at, tl.load(x + at, mask=at < size) * 2, mask=at < size)

    x = torch.rand(100, device="cuda:1")
    double[(1,)](x, 100, BLOCK=128)
    ```

    Use instead:
    ```python
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def double(x, size, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x + at, tl.load(x + at, mask=at < size) * 2, mask=at < size)

    x = torch.rand(100, device="cuda:1")
    with torch.cuda.device(x.device):
        double[(1,)](x, 100, BLOCK=128)
    ```

    ## Fix safety
    The fix is unsafe: the launch goes into a block that makes the tensors' GPU the current one.
    """

    name = "kernel-on-other-gpu"
    group = "offload, meta, tools"
    engines = ("check",)
    specificity = 90
    lesson = "A kernel of your own runs on the current GPU: make the tensors' GPU current around the launch."

    def recognise(self, scene: Scene) -> Recognition | None:
        """A launch that was watched."""
        operand = scene.stray_operand
        if scene.kind is not Kind.KERNEL or operand is None:
            return None
        name = short(operand.shown)
        return Recognition(
            message=f"`{name}` is on {operand.device}, but the kernel is launched on the current GPU, {wanted(scene)}",
            location=scene.raised,
            confidence=Confidence.LIKELY,
            evidence=story(scene, arrival(operand)),
            help=f"Launch it inside `with torch.cuda.device({name}.device):`",
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        operand, site = scene.stray_operand, sites.at(scene.raised)
        torch = None if site is None else mending.torch_name(site.source.tree)
        name = None if operand is None else operand.expression
        if torch is not None and name and mending.is_path(name):
            block = f"with {torch}.cuda.device({name}.device):"
            yield from mending.inside(site, block, f"Launch it on the GPU of `{name}`")
