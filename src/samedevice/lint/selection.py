"""Which rules are looked for: names, categories, `all`; what the settings and the command line say."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from samedevice.model.errors import UserError

if TYPE_CHECKING:
    from samedevice.rules.rule import Rule

CATEGORIES = ("correctness", "performance", "portability")
#: looked for when nothing is selected: what raises, not what is slow or not portable
DEFAULT_CATEGORY = "correctness"


@cache
def rule_names() -> frozenset[str]:
    """The names of all rules, from the sources of their modules; imports none of them."""
    folder = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "rules")
    names = []
    for entry in os.scandir(folder):
        name = entry.name.removesuffix(".py").replace("_", "-")
        if entry.name.endswith(".py"):
            with open(entry.path, encoding="utf-8") as stream:
                # Modules that rules share stand beside them and have no name.
                if f'    name = "{name}"' in stream.read():
                    names.append(name)
    return frozenset(names)


def rule_called(name: str) -> "Rule | None":
    """The rule, with only its own module imported; None when there is no such rule."""
    if name not in rule_names():
        return None
    from samedevice.rules.rule import Rule

    import_module(f"samedevice.rules.{name.replace('-', '_')}")
    return Rule._registry.get(name)


def stranger(name: str) -> str | None:
    """What to say of `name` when it is no rule, None when it is one."""
    if name in rule_names():
        return None
    near = nearest(name, rule_names())
    return f"there is no rule `{name}`" + (f", did you mean `{near}`?" if near else "")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The one of the `known` names that `name` was meant to be."""
    from difflib import get_close_matches

    near = get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return near[0] if near else None


def checked_names(names: Iterable[str], where: str) -> tuple[str, ...]:
    """`names` as they are.

    Raises:
        UserError: one of them is neither a rule nor a category; says `where` it stands.
    """
    names = tuple(names)
    for name in names:
        if name not in rule_names() and name not in CATEGORIES and name != "all":
            near = nearest(name, {*rule_names(), *CATEGORIES})
            hint = f"did you mean `{near}`?" if near else "`samedevice rule` lists the rules"
            raise UserError(f"{where}: there is no rule or category `{name}`; {hint}")
    return names


@dataclass(frozen=True)
class Selection:
    """Answers whether a rule is looked for; a name weighs more than a category, `ignore` more than `select`."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    answers: dict[str, bool] = field(default_factory=dict, compare=False, repr=False)

    def __call__(self, rule: str) -> bool:
        answer = self.answers.get(rule)
        if answer is None:
            answer = self.answers[rule] = self.decide(rule)
        return answer

    def decide(self, rule: str) -> bool:
        """The same, without memory."""
        if rule in self.ignore or rule in self.select:
            return rule not in self.ignore
        if "all" in self.ignore:
            return False
        found = rule_called(rule)
        category = found.category if found is not None else DEFAULT_CATEGORY
        if category in self.ignore:
            return False
        if category in self.select or "all" in self.select:
            return True
        preview = found is not None and found.preview
        return not self.select and category == DEFAULT_CATEGORY and not preview

    @property
    def is_default(self) -> bool:
        """Whether nothing is selected or ignored."""
        return not self.select and not self.ignore

    @property
    def key(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What distinguishes it from other selections."""
        return self.select, self.ignore

    def covers(self, names: Iterable[str], rule: str) -> bool:
        """Whether `names`, of rules and categories, include `rule`."""
        names = frozenset(names)
        if rule in names or "all" in names:
            return True
        found = rule_called(rule) if not names.isdisjoint(CATEGORIES) else None
        return found is not None and found.category in names
