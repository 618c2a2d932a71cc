"""What an entry of the message catalogue holds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from samedevice.model.scene import Kind
from samedevice.torch_facts.messages.template import Template

#: the named pieces of a message: {"arg": "mat1", "d": "cpu", …}
Fields = Mapping[str, str]

LANGUAGES = ("en", "de")


@dataclass(frozen=True, slots=True)
class Text:
    """A sentence in every language that explanations come in."""

    en: str
    de: str

    def of(self, language: str) -> str:
        """The sentence in `language`, English for one that there is not."""
        return self.de if language == "de" else self.en

    def filled(self, **values: str) -> "Text":
        """The sentence with its `{name}` places filled."""
        return Text(self.en.format(**values), self.de.format(**values))


#: short, because the catalogue is full of it
T = Text


@dataclass(frozen=True, slots=True)
class Wording:
    """One text that PyTorch or a library raises.

    Attributes:
        template: the text with `{name}` places.
        since, until: first and last torch release with this text, as far as known; None is open.
        example: a message as it was really seen; the tests match it.
        accept: the pieces must satisfy this too (one text serves two families).
    """

    template: Template
    example: str
    since: str | None = None
    until: str | None = None
    accept: Callable[[Fields], bool] | None = None

    @property
    def releases(self) -> str:
        """As shown: "1.10 to 2.7", "since 2.8", "" for any."""
        if self.since and self.until:
            return f"{self.since} – {self.until}"
        if self.since:
            return f"≥ {self.since}"
        return f"≤ {self.until}" if self.until else ""


def wording(
    template: str,
    example: str,
    since: str | None = None,
    until: str | None = None,
    accept: Callable[[Fields], bool] | None = None,
) -> Wording:
    """A `Wording` from the template's source text."""
    return Wording(Template.parse(template), example, since, until, accept)


@dataclass(frozen=True, slots=True)
class Cause:
    """A usual cause of a family of messages.

    Attributes:
        rule: the name of the mistake's rule.
        what: what was written wrong.
        sign: how to tell it from the other causes.
        write: how to write it right.
        code: the remedy as source text.
    """

    rule: str
    what: Text
    sign: Text
    write: Text
    code: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """What the pieces of one message tell beyond its family."""

    text: Text
    #: rules that become more likely, the likeliest first
    causes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Family:
    """Messages that mean the same.

    Attributes:
        name: kebab-case.
        kind: what PyTorch refuses; None for kin that is no refusal of placement.
        title: one sentence, what went wrong.
        means: what the message means.
        names: which operand the message names, and why that one may be the healthy one.
        causes: names of causes, the most frequent first.
        wordings: every text of the family, the more exact before the less exact.
        code: how to write it right, where no single cause says it.
        placement: False for kin (dtype errors, a missing driver) that no move repairs.
        read: tells more from the pieces of a message.
    """

    name: str
    kind: Kind | None
    title: Text
    means: Text
    causes: tuple[str, ...]
    wordings: tuple[Wording, ...]
    names: Text | None = None
    code: str = ""
    placement: bool = True
    read: Callable[[Fields], Reading | None] | None = None
