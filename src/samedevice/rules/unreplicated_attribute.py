"""The rule `unreplicated-attribute`."""

from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Holder, Scene
from samedevice.rules import mending, mending_modules
from samedevice.rules.questions import birth, called, is_mixed, place, story, wanted
from samedevice.rules.reading import told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class UnreplicatedAttribute(Rule):
    """Checks for tensors kept as plain attributes of a model that `DataParallel` replicates.

    ## Why is this bad?
    `DataParallel` copies parameters and buffers to each GPU. A plain attribute is shared by all replicas: it stays
    on the GPU where it was made, and the replicas on the other GPUs cannot use it. With one GPU the program
    works.

    ## Example
    ```python
    import torch

    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)
            self.scale = torch.ones(4, device="cuda")

        def forward(self, x):
            return self.linear(x) * self.scale

    model = torch.nn.DataParallel(Scaled().to("cuda"), device_ids=[0, 1])
    print(model(torch.rand(6, 4, device="cuda")).sum().item())
    ```

    Use instead:
    ```python
    import torch

    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)
            self.scale = torch.nn.Parameter(torch.ones(4))

        def forward(self, x):
            return self.linear(x) * self.scale

    model = torch.nn.DataParallel(Scaled().to("cuda"), device_ids=[0, 1])
    print(model(torch.rand(6, 4, device="cuda")).sum().item())
    ```

    ## Fix safety
    Reading alone gives no fix. `check --fix` tries an unsafe one and keeps it when a run proves it.
    Register it as a parameter if it is trained, else as a buffer.
    """

    name = "unreplicated-attribute"
    group = "several GPUs"
    engines = ("check", "lint")
    alters_results = True
    specificity = 93
    lesson = (
        "Replicas get copies of parameters and buffers only: what a model needs on every GPU is registered."
    )

    def recognise(self, scene: Scene) -> Recognition | None:
        """A plain attribute of a module, met by a replica on another GPU."""
        if not is_mixed(scene) or not scene.extra.get("replica"):
            return None
        for operand in sorted(scene.operands, key=lambda o: o is not scene.stray_operand):
            origin = operand.origin
            if origin.holder is not Holder.ATTRIBUTE or not origin.holder_is_module:
                continue
            location = place(origin.kept, origin.placed, origin.born)
            if location is None:
                continue
            name = called(origin, scene)
            kind = "an `nn.Parameter`" if origin.requires_grad else "a buffer"
            return Recognition(
                message=f"`{name}` is a plain attribute: `DataParallel` does not copy it to the other GPUs, it stays on {origin.device}",
                location=location,
                confidence=Confidence.CERTAIN,
                evidence=story(
                    scene,
                    birth(origin),
                    (origin.kept, f"kept as a plain attribute of `{origin.holder_class}` here"),
                ),
                help=f"Make it {kind}, so that each replica on {wanted(scene)} and the others gets its own",
            )
        return None

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        held = [o.origin for o in scene.operands if o.origin.holder is Holder.ATTRIBUTE]
        if any(o.requires_grad for o in held):
            yield from mending_modules.as_parameter(sites.at(found.location))
        else:
            yield from mending_modules.as_buffer(sites.at(found.location))
        yield from mending.at_use(scene, sites)

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            f"`self.{meeting.name}` stays on one GPU: `DataParallel` replicates parameters and buffers, not plain attributes",
            help="Make it a parameter or a buffer",
        )
