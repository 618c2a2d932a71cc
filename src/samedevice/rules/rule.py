"""What a rule is, and the registry of all rules."""

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import ClassVar

from samedevice.model.diagnostic import Confidence, Evidence, Location, Severity
from samedevice.model.errors import UserError
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Scene
from samedevice.model.traffic import Traffic
from samedevice.rules.sites import Sites


@dataclass(frozen=True, slots=True)
class Recognition:
    """What a rule makes of a scene: everything of a diagnostic that is the rule's to say.

    The engine adds the tensors, the place where PyTorch raises and the count.
    """

    message: str
    location: Location
    confidence: Confidence
    evidence: tuple[Evidence, ...] = ()
    help: str | None = None
    suggestion: str | None = None
    fix: Fix | None = None
    notes: tuple[str, ...] = ()
    #: what makes two recognitions the same mistake; the location when None
    cause: object = None


class Rule:
    """One kind of mistake: its documentation, its wording, how engines recognise it.

    A subclass's docstring is its documentation page (Markdown): one sentence, then the headings
    *Why is this bad?*, *Example*, *Use instead*, *Fix safety*. The module carries the rule's name
    with underscores, the class in CamelCase.

    Attributes:
        name: kebab-case, readable as "allow *name*".
        group: the heading in the catalogue ("data flow", "modules", "creation", …).
        category: `correctness`, `performance` or `portability`.
        specificity: recognisers run from the highest to the lowest; the first that answers wins.
        lesson: the general rule behind the mistake, for a beginner.
        alters_results: taking the mistake out may change what the program computes (parameters that
            nobody trained are trained), so that other numbers do not speak against a fix.
        engines: which engines can report it: subset of "check", "lint", "run", "profile".
    """

    name: ClassVar[str]
    group: ClassVar[str]
    severity: ClassVar[Severity] = Severity.ERROR
    category: ClassVar[str] = "correctness"
    since: ClassVar[str] = "0.1.0"
    preview: ClassVar[bool] = False
    alters_results: ClassVar[bool] = False
    specificity: ClassVar[int] = 50
    lesson: ClassVar[str] = ""
    engines: ClassVar[tuple[str, ...]] = ("check",)

    _registry: ClassVar[dict[str, "Rule"]] = {}

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in cls.__dict__:
            Rule._registry[cls.name] = cls()

    def recognise(self, scene: Scene) -> Recognition | None:
        """What this rule says of `scene`, or None when the mistake is another one."""
        return None

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterable[Fix]:
        """Edits that may take the mistake out, the best first; a run proves which one does."""
        return ()

    def recognise_traffic(self, traffic: Traffic) -> Recognition | None:
        """What this rule says of what one place moves or waits for, None when there is nothing to say."""
        return None

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What this rule says of a mistake that reading the code shows to be its own."""
        return None

    @property
    def documentation(self) -> str:
        """The docstring as Markdown, dedented."""
        return inspect.cleandoc(type(self).__doc__ or "")

    @property
    def summary(self) -> str:
        """The first sentence of the documentation."""
        return self.documentation.partition("\n\n")[0].replace("\n", " ")


@cache
def all_rules() -> dict[str, Rule]:
    """Every rule by name, in alphabetical order; imports each module of the package once."""
    import samedevice.rules as package

    for module in iter_modules(package.__path__):
        if module.name != "rule":
            import_module(f"samedevice.rules.{module.name}")
    return dict(sorted(Rule._registry.items()))


def find_rule(name: str) -> Rule:
    """The rule called `name`.

    Raises:
        UserError: there is none; the text names the nearest ones.
    """
    rules = all_rules()
    if name in rules:
        return rules[name]
    near = get_close_matches(name, rules, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(f'`{n}`' for n in near)}?" if near else "`samedevice rule` lists all"
    raise UserError(f"there is no rule `{name}`; {hint}")
