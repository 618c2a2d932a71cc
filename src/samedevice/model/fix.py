"""A `Fix`: a titled set of text edits with a statement of how safe they are."""

from dataclasses import dataclass
from enum import StrEnum


class Applicability(StrEnum):
    """`safe` cannot change behaviour on any device; `unsafe` may; `display` is only shown."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    DISPLAY = "display"


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """A place between characters: line and column count from 1, columns count characters."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """Replace the text from `start` up to `end` of `path` by `new_text`."""

    path: str
    start: Point
    end: Point
    new_text: str
    cell: int | None = None


@dataclass(frozen=True, slots=True)
class Fix:
    """Edits that belong together: all of them or none are applied."""

    title: str
    applicability: Applicability
    edits: tuple[Edit, ...] = ()
