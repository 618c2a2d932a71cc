"""The rule `collective-on-wrong-device`."""

import ast
import re
from collections.abc import Iterator
from typing import Final

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Action, Kind, Operand, Scene
from samedevice.rules import mending
from samedevice.rules.questions import (
    MADE,
    arrival,
    birth,
    last,
    left_behind,
    moved,
    place,
    short,
    story,
    wanted,
)
from samedevice.rules.reading import told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Site, Sites
from samedevice.source import edits

#: collectives that write into their operand
IN_PLACE: Final = frozenset({"all_reduce", "broadcast", "reduce", "recv", "irecv", "all_reduce_coalesced"})

#: one reason for all that means the current GPU
SHARED: Final = "the current GPU is another process's"

#: the current GPU in a call that puts something there
BARE: Final = re.compile(r"""["']cuda["']|\.cuda\(\)""")

#: a GPU by its number
NUMBERED: Final = re.compile(r"cuda:\d")


class CollectiveOnWrongDevice(Rule):
    """Checks for collectives (`all_reduce`, `broadcast`, `gather`) given tensors on the wrong device.

    ## Why is this bad?
    NCCL moves data between GPUs and knows no other memory: a CPU tensor given to `all_reduce` raises "No backend type
    associated with device type cpu". With the gloo backend, as on a laptop, the same call works. A tensor
    on another process's GPU is refused, or makes the processes wait for each other.

    ## Example
    ```python
    # run with torchrun and two GPUs
    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl")
    loss = torch.tensor(0.5)
    dist.all_reduce(loss)
    ```

    Use instead:
    ```python
    # run with torchrun and two GPUs
    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl")
    device = torch.device("cuda", dist.get_rank() % torch.cuda.device_count())
    loss = torch.tensor(0.5, device=device)
    dist.all_reduce(loss)
    ```

    ## Fix safety
    Reading alone gives no fix. `check --fix` tries an unsafe one and keeps it when a run proves it.
    The tensor belongs on the GPU of its rank.
    """

    name = "collective-on-wrong-device"
    group = "several GPUs"
    engines = ("check", "lint")
    specificity = 90
    lesson = "NCCL's collectives take GPU tensors, each on its own rank's GPU: keep host values out of them or move them first."

    def recognise(self, scene: Scene) -> Recognition | None:
        """A collective's own refusal."""
        if scene.kind is not Kind.COLLECTIVE:
            return None
        stray = scene.stray_operand or (scene.operands[0] if scene.operands else None)
        if stray is None:
            return Recognition(
                message=f"`{scene.operator}` takes another process's GPU; this process's own is {wanted(scene)}",
                location=scene.raised,
                confidence=Confidence.CERTAIN,
                evidence=story(scene),
                help='Name the process\'s own GPU: `torch.device("cuda", local_rank)`',
                cause=SHARED,
            )
        if stray.device.startswith("cuda"):
            return _on_another_gpu(scene, stray)
        if left_behind(scene) is not None:
            return None
        name = short(stray.shown)
        inside = scene.frames[-1].package if scene.frames else None
        where = f"`{scene.operator}`" + (f" (inside {inside})" if inside else "")
        return Recognition(
            message=f"`{name}` is on {stray.device}, but {where} needs it on its process's GPU, {wanted(scene)}",
            location=scene.raised,
            confidence=Confidence.CERTAIN,
            evidence=story(scene, birth(stray.origin)),
            help="Move it there before the call, or create it there",
            suggestion=moved(stray.expression, scene.anchor or "device"),
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        stray = scene.stray_operand
        if stray is None:
            return
        if stray.device != "cpu":
            site = sites.at(found.location)
            if found.cause == SHARED:
                yield from _choose_gpu(sites.at(scene.raised))
            ranks = [] if site is None else [n for n in ("local_rank", "rank") if site.has(n)]
            own = [f'f"cuda:{{{name}}}"' for name in ranks]
            changes = mending.other_device(site, scene.wanted, own)
            yield from (f for f in changes if not NUMBERED.search(f.title))
            return
        born = stray.origin.born
        if stray.root is None and born is not None and born.action in MADE:
            site = sites.at(born.location)
            # Another process has another GPU: nothing that names one by its number.
            yield from (f for f in mending.on_device(site, scene.wanted) if not NUMBERED.search(f.title))
            yield from mending.keyword(site, "device", ['"cuda"'], "Create it on the current GPU")
        if scene.operator.rpartition(".")[2] not in IN_PLACE:
            yield from (f for f in mending.at_use(scene, sites) if not NUMBERED.search(f.title))
        yield from _moved_before(scene, sites)

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            f"`{meeting.operator}` gets `{meeting.stray}` on cpu, but NCCL works on GPU tensors only",
            help="Move it to the process's own GPU",
        )


def _on_another_gpu(scene: Scene, stray: Operand) -> Recognition:
    origin = stray.origin
    step = origin.placed or stray.placed
    if step is None:
        moves = [s for s in origin.provenance if s.action is Action.MOVED]
        step = last(tuple(moves)) or origin.born
    if stray.expression is None and stray.path is None:
        # An object collective puts its bytes there itself.
        message = f"`{scene.operator}` works on {stray.device}, but this process's GPU is {wanted(scene)}"
        location, bare = scene.raised, True
    else:
        message = f"`{short(stray.shown)}` is on {stray.device}, but this process's GPU is {wanted(scene)}"
        location = place(step) or scene.raised
        bare = step is not None and BARE.search(step.expression or "") is not None
    return Recognition(
        message=message,
        location=location,
        confidence=Confidence.CERTAIN,
        evidence=story(scene, arrival(origin)),
        help="Choose the process's own GPU first: `torch.cuda.set_device(local_rank)`"
        if bare
        else f"Put it on {wanted(scene)}, the GPU of this process",
        # Whatever means the current GPU is wrong for one reason.
        cause=SHARED if bare else None,
    )


def _choose_gpu(site: Site | None) -> Iterator[Fix]:
    """`torch.cuda.set_device` behind `init_process_group`."""
    if site is None:
        return
    for node in ast.walk(site.source.tree):
        call = node.value if isinstance(node, ast.Expr) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        torch = mending.torch_name(site.source.tree)
        if call.func.attr != "init_process_group" or torch is None or not isinstance(node, ast.Expr):
            continue
        rank = f"{ast.unparse(call.func.value)}.get_rank()"
        line = f"{torch}.cuda.set_device({rank} % {torch}.cuda.device_count())"
        change = edits.insert_after(site.path, site.text, node, line)
        yield from mending.fix("Choose the process's own GPU", [change])
        return


def _moved_before(scene: Scene, sites: Sites) -> Iterator[Fix]:
    """`x = x.to(device)` in front of the call, which writes its result into `x`."""
    site, stray = sites.at(scene.raised), scene.stray_operand
    statement = None if site is None else site.statement
    if site is None or statement is None or stray is None or not (stray.expression or "").isidentifier():
        return
    name = stray.expression
    for device in [*(d for d in site.devices(scene.wanted) if not NUMBERED.search(d)), '"cuda"'][:3]:
        change = edits.insert_before(site.path, site.text, statement, f"{name} = {name}.to({device})")
        yield from mending.fix(f"Move it to `{device}` before the call", [change])
