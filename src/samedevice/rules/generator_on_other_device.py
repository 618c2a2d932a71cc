"""The rule `generator-on-other-device`."""

import ast
from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Kind, Scene, Step
from samedevice.rules import mending
from samedevice.rules.questions import short, story
from samedevice.rules.reading import device_name, keyword_fix, told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites
from samedevice.source import edits


class GeneratorOnOtherDevice(Rule):
    """Checks for random generators of another device than the tensor they fill.

    ## Why is this bad?
    A `torch.Generator` belongs to a device: `torch.Generator()` makes one for the CPU. A factory with
    `device="cuda"` needs a generator made with `device="cuda"`; the reverse fails as well.

    ## Example
    ```python
    import torch

    generator = torch.Generator().manual_seed(0)
    print(torch.randn(3, generator=generator, device="cuda").sum().item())
    ```

    Use instead:
    ```python
    import torch

    generator = torch.Generator(device="cuda").manual_seed(0)
    print(torch.randn(3, generator=generator, device="cuda").sum().item())
    ```

    ## Fix safety
    The fix is unsafe: a GPU generator draws other numbers from the same seed. To keep the numbers, draw on the
    CPU and move the result.
    """

    name = "generator-on-other-device"
    group = "host-only"
    engines = ("check", "lint")
    alters_results = True
    specificity = 70
    lesson = "A generator belongs to a device: make it with the device of the tensors it is to fill."

    def recognise(self, scene: Scene) -> Recognition | None:
        """A generator's own refusal."""
        if scene.kind is not Kind.GENERATOR:
            return None
        made = scene.extra.get("generator_made")
        step = made if isinstance(made, Step) else None
        needed = str(scene.extra.get("generator_wanted", "cuda"))
        has = "cpu" if needed == "cuda" else "cuda"
        name = scene.extra.get("generator_name")
        what = f"`{short(str(name))}`" if name else "the generator"
        location = step.location if step is not None and step.location is not None else scene.raised
        return Recognition(
            message=f"{what} is a generator for {has}, but it is to fill a tensor on {needed}",
            location=location,
            confidence=Confidence.CERTAIN,
            evidence=story(scene, (step, f"the generator is made here, for {has}")),
            help=f"Make the generator for {needed}",
            suggestion=_made_for(step, needed),
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        needed = str(scene.extra.get("generator_wanted", "cuda"))
        site = mending.generator_call(sites.at(found.location))
        if site is not None:
            wanted = f"{needed}:0" if needed == "cuda" else needed
            devices = [*site.devices(wanted)[: mending.MOST_DEVICES], f'"{needed}"']
            yield from mending.keyword(site, "device", devices, "Make the generator for the tensor's device")
        if needed != "cpu":
            yield from _drawn_on_host(scene, sites)

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            f"the generator is on {meeting.facts.get('own', 'cpu')} and is asked for numbers on {meeting.wanted}",
            help=f"Create it with the device {meeting.wanted}",
            fix=keyword_fix(
                meeting, f"device={device_name(meeting)}", "Create it on the device that is asked for"
            )
            if device_name(meeting)
            else None,
        )


def _made_for(step: Step | None, device: str) -> str | None:
    text = step.expression if step is not None else None
    if not text or "Generator()" not in text:
        return None
    return text.replace("Generator()", f'Generator(device="{device}")')


def _drawn_on_host(scene: Scene, sites: Sites) -> Iterator[Fix]:
    """`.cpu()` behind what a generator of the CPU draws by."""
    site = sites.at(scene.raised)
    if site is None or not isinstance(site.node, ast.Call):
        return
    host, _, called = ast.unparse(site.node.func).rpartition(".")
    if called not in ("multinomial", "bernoulli", "poisson", "normal"):
        return
    if host and host != mending.torch_name(site.source.tree) and isinstance(site.node.func, ast.Attribute):
        found = [site.node.func.value]
    else:
        found = [
            n for n in site.node.args[: 2 if called == "normal" else 1] if not isinstance(n, ast.Constant)
        ]
    changes = [e for node in found for e in edits.method_call(site.path, site.text, node, ".cpu()")]
    yield from mending.fix("Draw on the generator's device", changes)
