"""What `explain` finds in a text, before any source is read: errors with their frames, ranks merged."""

from dataclasses import dataclass, replace

from samedevice.live.tracebacks import TextFrame, innermost_user
from samedevice.torch_facts.messages import Match


@dataclass(frozen=True, slots=True)
class FoundError:
    """One device error of a log, however many ranks and times.

    Attributes:
        match: its family and the pieces of its message.
        exception: class as the text names it, None in a bare message.
        frames: its traceback, outermost first.
        number: line of the log with the message, of the first occurrence.
        wrapper: where it was raised, when another process or thread re-raised it
            ("DataLoader worker process 0", "replica 1 on device 1").
        ranks: processes that raised it.
        count: how often it stands in the log.
    """

    match: Match
    exception: str | None = None
    frames: tuple[TextFrame, ...] = ()
    number: int = 1
    wrapper: str | None = None
    ranks: tuple[int, ...] = ()
    count: int = 1

    @property
    def place(self) -> TextFrame | None:
        """The deepest frame of the user's code."""
        return innermost_user(self.frames)

    @property
    def signature(self) -> tuple[object, ...]:
        """Equal for the same mistake on other ranks, whose GPU has another index."""
        fields = self.match.fields
        kinds = tuple(sorted((k, v.partition(":")[0]) for k, v in fields.items() if k.startswith("d")))
        names = tuple(sorted((k, v) for k, v in fields.items() if k in ("arg", "method")))
        place = self.place
        where = (place.path, place.line) if place else None
        return (self.match.family.name, kinds, names, where)


def merged(errors: list[FoundError]) -> list[FoundError]:
    """Errors of one mistake become one, in the order of their first occurrence.

    A line without a traceback joins the same error that has one: frameworks log the message
    again when they shut down.
    """
    groups: dict[tuple[object, ...], FoundError] = {}
    for error in errors:
        known = groups.get(error.signature)
        groups[error.signature] = error if known is None else _joined(known, error)
    full = {key[:-1]: key for key in groups if key[-1] is not None}
    for key in [key for key in groups if key[-1] is None and key[:-1] in full]:
        target = full[key[:-1]]
        bare = groups.pop(key)
        groups[target] = _joined(groups[target], bare)
    return sorted(groups.values(), key=lambda error: error.number)


def _joined(first: FoundError, second: FoundError) -> FoundError:
    longer = first if len(first.frames) >= len(second.frames) else second
    return replace(
        longer,
        exception=first.exception or second.exception,
        number=min(first.number, second.number) if longer is first else longer.number,
        wrapper=first.wrapper or second.wrapper,
        ranks=tuple(sorted({*first.ranks, *second.ranks})),
        count=first.count + second.count,
    )
