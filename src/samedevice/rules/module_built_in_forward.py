"""The rule `module-built-in-forward`."""

from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Scene
from samedevice.rules import mending_modules
from samedevice.rules.questions import is_mixed, module_of, short, story, wanted
from samedevice.rules.reading import told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class ModuleBuiltInForward(Rule):
    """Checks for modules with parameters that are built anew in `forward`.

    ## Why is this bad?
    A module made in `forward` has fresh parameters on the CPU at each call. On a GPU it raises; on the CPU it
    runs and is wrong all the same: its parameters are random each time, no optimizer knows them and no
    checkpoint holds them.

    ## Example
    ```python
    import torch

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x):
            return torch.nn.BatchNorm1d(4)(self.linear(x))

    model = Block().to("cuda")
    print(model(torch.rand(5, 4, device="cuda")).sum().item())
    ```

    Use instead:
    ```python
    import torch

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)
            self.norm = torch.nn.BatchNorm1d(4)

        def forward(self, x):
            return self.norm(self.linear(x))

    model = Block().to("cuda")
    print(model(torch.rand(5, 4, device="cuda")).sum().item())
    ```

    ## Fix safety
    Reading alone gives no fix. `check --fix` tries an unsafe one and keeps it when a run proves it.
    The module has to move to `__init__`, and training changes with it.
    """

    name = "module-built-in-forward"
    group = "modules"
    engines = ("check", "lint")
    alters_results = True
    specificity = 77
    lesson = "Modules with parameters are built in `__init__`, once; `forward` only uses them."

    def recognise(self, scene: Scene) -> Recognition | None:
        """The stray parameter's module was made while a `forward` ran."""
        module = module_of(scene)
        if not is_mixed(scene) or module is None or module.in_forward is None or module.created is None:
            return None
        created = module.created
        if created.location is None or module.registered is False:
            return None
        what = short(created.expression or module.class_name)
        return Recognition(
            message=f"`{what}` is built in `{module.in_forward}.forward`: at each call it has new parameters, on cpu",
            location=created.location,
            confidence=Confidence.CERTAIN,
            evidence=story(
                scene,
                (created, f"`{module.class_name}` is made here while the model runs on {wanted(scene)}"),
            ),
            help=f"Build it once in `{module.in_forward}.__init__` and call it here",
            suggestion=f"self.{module.class_name.lower()} = {what}  # in __init__",
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        module = module_of(scene)
        if module is not None:
            yield from mending_modules.into_constructor(sites.at(found.location), module.class_name.lower())
        yield from mending_modules.made_on(sites.at(found.location), scene, sites)

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            f"`{meeting.name}` is built at each call, with new parameters on cpu that nothing moves or trains",
            help="Build it in `__init__`",
        )
