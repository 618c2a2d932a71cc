"""What a command found: the diagnostics and the summary of the run."""

from dataclasses import dataclass, field

from samedevice.model.diagnostic import Diagnostic


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one command, which every renderer takes.

    Attributes:
        command: `check`, `lint`, `explain`, `run` or `profile`.
        program: how the program ended, `check` and `run` only: "finished", "raised X: …",
            "exited with status 3", "interrupted", "stopped after 60 s".
        notes: what the reader should know about the run as a whole ("torch.compile ran eagerly").
        files: number of files looked at (`lint`).
        suppressed: diagnostics silenced by suppression comments.
        ranks: number of processes that a launcher started (`check` of several).
        fixed: problems that are gone, each with the fix that was made and, as its note, what proves it
            (`check --fix`).
        written: the fixes are in the files; not so with `--diff`.
        seconds: wall-clock time of the command; shown in text only, never in goldens.
    """

    command: str
    diagnostics: tuple[Diagnostic, ...] = ()
    virtual_gpus: int | None = None
    program: str | None = None
    notes: tuple[str, ...] = ()
    files: int | None = None
    suppressed: int = 0
    fixed: tuple[Diagnostic, ...] = ()
    written: bool = True
    ranks: int | None = None
    seconds: float | None = field(default=None, compare=False)

    @property
    def occurrences(self) -> int:
        """How often the problems fired, all together."""
        return sum(d.count for d in self.diagnostics)
