"""All families, and the search for the one that a text belongs to."""

from dataclasses import dataclass, field
from functools import cache

from samedevice.torch_facts.messages import autograd, dtypes, host, meta, operands, parallel, portable
from samedevice.torch_facts.messages.causes import CAUSES
from samedevice.torch_facts.messages.family import Cause, Family, Reading, Wording
from samedevice.torch_facts.messages.template import flatten


@dataclass(frozen=True, slots=True)
class Match:
    """A message found in a text.

    Attributes:
        text: the message as it stands there, white space flattened.
        begin, end: its place in the flattened text.
        fields: the pieces: devices `d1`, `d2`, argument `arg`, operator `method`, …
    """

    family: Family
    wording: Wording
    text: str
    begin: int
    end: int
    fields: dict[str, str] = field(default_factory=dict)

    @property
    def reading(self) -> Reading | None:
        """What the pieces tell beyond the family."""
        return self.family.read(self.fields) if self.family.read else None

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The usual causes, the most frequent first, those that the pieces speak for in front."""
        reading = self.reading
        first = reading.causes if reading else ()
        names = dict.fromkeys((*first, *self.family.causes))
        return tuple(CAUSES[name] for name in names)


@cache
def families() -> tuple[Family, ...]:
    """Every family of the catalogue."""
    groups = (operands, host, autograd, parallel, meta, portable, dtypes)
    return tuple(family for group in groups for family in group.FAMILIES)


def family(name: str) -> Family:
    """The family called `name` (KeyError when there is none)."""
    return _by_name()[name]


@cache
def _by_name() -> dict[str, Family]:
    return {family.name: family for family in families()}


@cache
def _wordings() -> tuple[tuple[str, Family, Wording], ...]:
    return tuple((w.template.marker, f, w) for f in families() for w in f.wordings)


@cache
def leads() -> tuple[str, ...]:
    """Short substrings one of which every known message contains, on one line."""
    found = sorted({w.template.lead for _, _, w in _wordings()}, key=len)
    # A lead that contains another one would only be searched for twice.
    return tuple(one for i, one in enumerate(found) if not any(other in one for other in found[:i]))


def match_message(text: str, *, exact_only: bool = False) -> Match | None:
    """The device error in `text`: the longest match, the first of equals; None when there is none.

    `exact_only` leaves out texts without places that are short enough to be somebody else's words.
    """
    flat = flatten(text)
    best: Match | None = None
    best_rank = (0, 0)
    for marker, owner, wording in _wordings():
        if marker not in flat or (exact_only and not wording.template.exact):
            continue
        start = 0
        while (found := wording.template.find(flat, start)) is not None:
            begin, end, fields = found
            if wording.accept is None or wording.accept(fields):
                # Of two that span the same text, the one with more words of its own is meant.
                rank = (end - begin, sum(map(len, wording.template.literals)))
                if rank > best_rank:
                    best, best_rank = Match(owner, wording, flat[begin:end], begin, end, fields), rank
                break
            start = begin + 1
    return best
