"""The one record out of every engine: a `Diagnostic` with its evidence, tensors and fix."""

from dataclasses import dataclass, field
from enum import StrEnum

from samedevice.model.fix import Fix


class Severity(StrEnum):
    """How bad it is."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Confidence(StrEnum):
    """How sure the engine is of the *cause*; that something raises is never in doubt in `check`."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A place in a file; lines and columns count from 1, columns count characters.

    `end_column` is the column after the last character. `cell` is the number of a notebook's
    cell, counted from 1; lines then count within the cell.
    """

    path: str
    line: int
    column: int = 1
    end_line: int | None = None
    end_column: int | None = None
    cell: int | None = None

    def __str__(self) -> str:
        where = f"{self.path}:cell {self.cell}" if self.cell is not None else self.path
        return f"{where}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Raised:
    """Where PyTorch raises on CUDA, with its exception class and exact text."""

    location: Location
    exception: str
    message: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class TensorFact:
    """One tensor of the failing call, as the report shows it."""

    expression: str
    device: str
    owner: str | None = None
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    born: Location | None = None
    at_fault: bool = False


@dataclass(frozen=True, slots=True)
class Evidence:
    """One step of the story: a place and a sentence about it."""

    location: Location
    message: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One mistake, however often it fires.

    Attributes:
        rule: kebab-case name of the rule.
        message: what is wrong and why, one sentence without a full stop.
        location: where the *mistake* is made.
        raised: where PyTorch raises; None in `lint`.
        tensors: all tensors of the failing call.
        evidence: the story in the order of the program's time.
        help: the remedy, imperative, one sentence.
        lesson: the general rule behind the mistake, one or two sentences for a beginner.
        suggestion: how to write it right, source text; may span lines.
        fix: text edits, when there are any that are right.
        notes: risks and asides.
        count: how often it fired.
        ranks: ranks in which it was found (several-process runs only).
        processes: how many processes found it.
    """

    rule: str
    severity: Severity
    confidence: Confidence
    message: str
    location: Location
    raised: Raised | None = None
    tensors: tuple[TensorFact, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    help: str | None = None
    lesson: str | None = None
    suggestion: str | None = None
    fix: Fix | None = None
    notes: tuple[str, ...] = ()
    count: int = 1
    ranks: tuple[int, ...] = field(default=())
    processes: int = 1
