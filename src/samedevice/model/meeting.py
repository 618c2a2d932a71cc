"""A `Meeting`: what reading the code shows about one mistake, before a rule words it."""

import ast
from dataclasses import dataclass, field

from samedevice.model.diagnostic import Confidence, Location


@dataclass(frozen=True, slots=True)
class Place:
    """A node of a source file.

    Attributes:
        text: the whole text of the file.
        function: the name of the function around it, "<module>" at top level.
        tree: the syntax tree of the file.
    """

    location: Location
    node: ast.AST
    text: str
    function: str
    tree: ast.Module

    @property
    def source(self) -> str:
        """The node's source, on one line and shortened."""
        try:
            flat = " ".join(ast.unparse(self.node).split())
        except (ValueError, RecursionError):
            return "it"
        return flat if len(flat) <= 60 else flat[:59] + "…"


@dataclass(frozen=True, slots=True)
class Happening:
    """One step of the story: where, and what it is called there."""

    place: Place
    what: str
    device: str | None = None


@dataclass(frozen=True, slots=True)
class Meeting:
    """Everything that a rule needs to word a diagnostic.

    Attributes:
        cause: the name of the rule whose mistake it is.
        operator: the operation in which the devices meet.
        met: where they meet; `culprit` where the mistake is made.
        stray: the expression out of place and its device; `other` and `wanted` what it meets.
        anchor: an expression that gives the wanted device at the culprit, if one is known.
        born, chosen, defaulted, moved, held, batch, bound, lost, copied, created, module_moved:
            steps of the story, None where they did not happen.
        name: the attribute, argument or class that the message is about.
        owner: the class that holds it.
        shallow: seen in a function by itself, without a caller that the project has.
    """

    cause: str
    operator: str
    met: Place
    culprit: Place
    confidence: Confidence
    stray: str = "the tensor"
    device: str = "cpu"
    other: str | None = None
    wanted: str | None = None
    anchor: str | None = None
    born: Happening | None = None
    chosen: Happening | None = None
    defaulted: Happening | None = None
    moved: Happening | None = None
    held: Happening | None = None
    batch: Happening | None = None
    bound: Happening | None = None
    lost: Happening | None = None
    copied: Happening | None = None
    created: Happening | None = None
    module_moved: Happening | None = None
    name: str | None = None
    owner: str | None = None
    shallow: bool = False
    facts: dict[str, object] = field(default_factory=dict)
