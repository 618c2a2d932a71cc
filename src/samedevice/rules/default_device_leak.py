"""The rule `default-device-leak`."""

from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence, Location
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Kind, Scene, Step
from samedevice.rules import mending
from samedevice.rules.questions import story
from samedevice.rules.reading import keyword_fix, told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class DefaultDeviceLeak(Rule):
    """Checks for code that does not expect the global default device that the program has set.

    ## Why is this bad?
    `torch.set_default_device("cuda")` reaches into every library: the samplers of a `DataLoader` draw their
    permutation with a CPU generator, but the tensor to fill is now made on the GPU, and PyTorch raises
    "Expected a 'cuda' device type for generator but found 'cpu'".

    ## Example
    ```python
    import torch
    from torch.utils.data import DataLoader

    torch.set_default_device("cuda")
    for batch in DataLoader(torch.rand(8, 4), batch_size=4, shuffle=True):
        print(batch.sum().item())
    ```

    Use instead:
    ```python
    import torch
    from torch.utils.data import DataLoader

    torch.set_default_device("cuda")
    generator = torch.Generator(device="cuda")
    for batch in DataLoader(torch.rand(8, 4), batch_size=4, shuffle=True, generator=generator):
        print(batch.sum().item())
    ```

    ## Fix safety
    The fix is unsafe: it hands a new generator to the loader, so the order of the samples changes.
    """

    name = "default-device-leak"
    group = "creation"
    engines = ("check", "lint")
    alters_results = True
    specificity = 80
    lesson = "A global default device changes what libraries create, too: give loaders a generator on that device, or name devices where tensors are made."

    def recognise(self, scene: Scene) -> Recognition | None:
        """A generator mismatch inside a library while a default device is set."""
        if scene.kind is not Kind.GENERATOR or "default_device" not in scene.extra:
            return None
        if "in_loader" not in scene.extra and "generator_made" in scene.extra:
            return None
        loader, setting = scene.extra.get("loader_made"), scene.extra.get("default_set")
        location = _place(loader) or _place(setting) or scene.raised
        device = str(scene.extra["default_device"])
        return Recognition(
            message=f"the default device {device} reaches into the DataLoader: its sampler fills a tensor on {device} with a generator on cpu",
            location=location,
            confidence=Confidence.CERTAIN,
            evidence=story(
                scene,
                (
                    setting if isinstance(setting, Step) else None,
                    f"from here on every factory without a device uses {device}",
                ),
                (
                    loader if isinstance(loader, Step) else None,
                    "the loader is made here without a generator of its own",
                ),
            ),
            help=f"Hand the loader a generator on {device}",
            suggestion=_with_generator(loader, device),
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        made = scene.extra.get("loader_made")
        site = sites.at(_place(made) or scene.raised)
        torch = None if site is None else mending.torch_name(site.source.tree)
        if torch is not None:
            device = str(scene.extra["default_device"]).partition(":")[0]
            yield from mending.keyword(
                mending.loader_call(site),
                "generator",
                [f'{torch}.Generator(device="{device}")'],
                "Give the loader a generator of the default device",
            )

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            f"the loader shuffles with a CPU generator, but the default device is {meeting.wanted}",
            help="Give the loader a generator of the default device",
            fix=keyword_fix(
                meeting,
                f'generator=torch.Generator(device="{meeting.wanted}")',
                "Give the loader a generator of the default device",
            ),
        )


def _place(step: object) -> Location | None:
    return step.location if isinstance(step, Step) else None


def _with_generator(step: object, device: str) -> str | None:
    text = step.expression if isinstance(step, Step) else None
    if not text or not text.endswith(")") or "generator" in text:
        return None
    return f'{text[:-1].rstrip().removesuffix(",")}, generator=torch.Generator(device="{device.partition(":")[0]}"))'
