"""The rule `module-in-container`."""

import re
from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Scene
from samedevice.rules import mending_modules
from samedevice.rules.questions import birth, is_mixed, module_of, story, to_gpu, wanted
from samedevice.rules.reading import container_fix, told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class ModuleInContainer(Rule):
    """Checks for submodules that a module keeps in a plain list, tuple or dictionary.

    ## Why is this bad?
    `Module.to` goes through the registered submodules. A module in a plain Python list (or dictionary) is not
    registered: it is not moved, its parameters are missing from `parameters()`, so the optimizer never trains
    them, and from `state_dict()`, so they are never saved. The device error is the lucky symptom.

    ## Example
    ```python
    import torch

    class Heads(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.heads = [torch.nn.Linear(4, 2) for _ in range(3)]

        def forward(self, x):
            return sum(head(x) for head in self.heads)

    model = Heads().to("cuda")
    print(model(torch.rand(5, 4, device="cuda")).sum().item())
    ```

    Use instead:
    ```python
    import torch

    class Heads(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.heads = torch.nn.ModuleList([torch.nn.Linear(4, 2) for _ in range(3)])

        def forward(self, x):
            return sum(head(x) for head in self.heads)

    model = Heads().to("cuda")
    print(model(torch.rand(5, 4, device="cuda")).sum().item())
    ```

    ## Fix safety
    The fix is unsafe: the submodules' parameters appear in `parameters()` and in the state dict, so an old
    checkpoint no longer loads strictly.
    """

    name = "module-in-container"
    group = "modules"
    engines = ("check", "lint")
    alters_results = True
    specificity = 75
    lesson = "`Module.to`, `parameters()` and `state_dict()` see registered submodules only: keep modules in `nn.ModuleList` or `nn.ModuleDict`."

    def recognise(self, scene: Scene) -> Recognition | None:
        """A module that another module holds without having registered it."""
        module, culprit = module_of(scene), scene.culprit
        if not is_mixed(scene) or module is None or module.kept is None or culprit is None:
            return None
        kept, move = module.kept, to_gpu(module.keeper_moves)
        if kept.location is None or (move is None and not module.keeper_moves):
            return None
        where = module.keeper_path or "a container"
        return Recognition(
            message=f"`{where}` keeps its modules out of reach: `Module.to` does not move what a plain container or attribute of `{module.keeper}` holds",
            location=kept.location,
            confidence=Confidence.CERTAIN,
            evidence=story(
                scene,
                birth(culprit),
                (kept, f"kept in `{where}` here, where it is not registered"),
                (
                    move,
                    f"`{module.keeper}` moves to {move.device if move else wanted(scene)} here, without it",
                ),
            ),
            help=f"Make `{where}` an `nn.ModuleList` or `nn.ModuleDict`",
            suggestion=_suggestion(kept.expression),
            cause=("container", kept.location.path, kept.location.line),
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        yield from mending_modules.as_container(sites.at(found.location))

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        where = f"`self.{meeting.name}`" if meeting.name else "a plain container"
        return told(
            meeting,
            f"{where} of `{meeting.owner}` keeps modules in a plain container, which `Module.to` does not reach",
            help="Make it an `nn.ModuleList` or `nn.ModuleDict`",
            fix=container_fix(meeting),
        )


def _suggestion(statement: str | None) -> str | None:
    """The assignment with its list or dictionary wrapped."""
    found = re.fullmatch(r"(self\.\w+)\s*(?::[^=]+)?=\s*([\[{].*[\]}])", statement or "", re.DOTALL)
    if found is None:
        appended = re.match(r"(self\.\w+)\.append\(", statement or "")
        return f"{appended[1]} = nn.ModuleList()" if appended else None
    kind = "nn.ModuleList" if found[2].startswith("[") else "nn.ModuleDict"
    return f"{found[1]} = {kind}({found[2]})"
