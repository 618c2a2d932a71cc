"""`check --fix`: edits are made, the program runs again, and what a run does not prove is taken back."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from samedevice.cli.trials import Files, Trial
from samedevice.lint.fixer import Identity, applicable, identity
from samedevice.model.diagnostic import Diagnostic
from samedevice.model.fix import Fix
from samedevice.rules import all_rules
from samedevice.source.rewriting import rewrite

#: runs in all, so that a long program is not run without end
MOST_RUNS = 24

#: said when numbers change as the repair of such a mistake changes them
ALTERED = (
    "what the program computes changes: the repair lets parameters be trained, or numbers be drawn, "
    "that were not before"
)

#: why edits are taken back that led nowhere
NEW_PROBLEM = "it brings a new problem"
LED_BACK = "what takes out the next problem brings this one back"

#: an edit that is made for a problem, by what it writes in which columns: its place moves with the lines
Attempt = tuple[Identity, tuple[tuple[int, str], ...]]


class Runs(Protocol):
    """Who starts the program."""

    count: int

    def check(self, *, show: bool = False) -> Trial: ...

    def plain(self) -> Trial: ...


@dataclass(frozen=True, slots=True)
class Made:
    """A fix that was made, and the run that proves it."""

    diagnostic: Diagnostic
    fix: Fix
    run: int


@dataclass(frozen=True, slots=True)
class Point:
    """A state to which one can go back: the changed files, the run on them, the fixes in them."""

    changed: dict[str, bytes]
    trial: Trial
    made: tuple[Made, ...] = ()


@dataclass(slots=True)
class Repaired:
    """What repairing came to.

    Attributes:
        trial: the run of the final state.
        made: the fixes that stay.
        taken_back: (problem, fix, reason) for those that do not.
        notes: what else the reader should know.
        tried: the edits that were made or refused: none of them is worth offering again.
    """

    trial: Trial
    made: tuple[Made, ...] = ()
    taken_back: list[tuple[Diagnostic, Fix, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    tried: set[Attempt] = field(default_factory=set)


class Repair:
    """One program's repair."""

    def __init__(
        self,
        runs: Runs,
        files: Files,
        *,
        unsafe: bool,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.runs = runs
        self.files = files
        self.unsafe = unsafe
        self.say = say
        self.tried: set[Attempt] = set()
        self.taken_back: list[tuple[Diagnostic, Fix, str]] = []
        self.notes: list[str] = []
        self.known: set[Identity] = set()
        self.one_by_one = False
        self.points: list[Point] = []
        self.repeats: bool | None = None
        self.pending: tuple[Made, ...] = ()
        self.before: dict[str, bytes] = {}
        self.reason = NEW_PROBLEM
        self.plain: Trial | None = None

    def repair(self, first: Trial) -> Repaired:
        """From a first run to the last state that a run has proven."""
        assert first.outcome is not None
        self.known = set(map(identity, first.outcome.diagnostics))
        self.points = [Point({}, first)]
        plain = self.plain = self.runs.plain() if self.choices(first) else None
        while True:
            self.go(self.points[-1])
            if not self.go_back():
                break
        if plain is not None and len(self.points) > 1:
            self.compare_plain(plain)
        last = self.points[-1]
        self.files.write(last.changed)
        return Repaired(last.trial, last.made, self.taken_back, self.notes, self.tried)

    def choices(self, trial: Trial) -> list[tuple[Diagnostic, Fix]]:
        """For each problem the next edit that has not been tried."""
        assert trial.outcome is not None
        found = []
        for problem, fixes in zip(trial.outcome.diagnostics, trial.fixes, strict=True):
            for fix in fixes:
                if (
                    applicable(fix, unsafe=self.unsafe)
                    and attempt(problem, fix) not in self.tried
                    and all(self.files.editable(edit.path) for edit in fix.edits)
                ):
                    found.append((problem, fix))
                    break
        return found

    def go(self, state: Point) -> None:
        """Try edits from here on as long as there are some."""
        while self.runs.count < MOST_RUNS:
            choices = self.choices(state.trial)
            if self.one_by_one:
                choices = choices[:1]
            if not choices:
                return
            after = self.step(state, choices)
            if after is not None:
                state, self.pending = after, after.made
                problems = after.trial.outcome.diagnostics if after.trial.outcome is not None else ()
                if all(identity(p) in self.known for p in problems):
                    back = self.led_back(after.trial)
                    if back is not None:
                        del self.points[back + 1 :]
                        self.reason = LED_BACK
                        return
                    self.points.append(after)
        if self.choices(state.trial):
            self.notes.append(f"stopped after {self.runs.count} runs; run it again to go on")

    def led_back(self, trial: Trial) -> int | None:
        """The state all of whose problems are there again: one edit took back what another was for."""
        now = Counter(map(spot, trial.outcome.diagnostics if trial.outcome is not None else ()))
        for number, point in enumerate(self.points):
            outcome = point.trial.outcome
            if (
                outcome is not None
                and outcome.diagnostics
                and not Counter(map(spot, outcome.diagnostics)) - now
            ):
                return number
        return None

    def step(self, state: Point, choices: Sequence[tuple[Diagnostic, Fix]]) -> Point | None:
        """Make edits together and run; the new state, None when they are taken back."""
        by_fix = {id(fix): problem for problem, fix in choices}
        done = rewrite([fix for _, fix in choices], self.files.read)
        for fix, reason in done.refused:
            self.refuse(by_fix[id(fix)], fix, reason)
        made = [(by_fix[id(fix)], fix) for fix in done.made]
        if not made or not done.contents:
            for problem, fix in made:
                self.tried.add(attempt(problem, fix))
            return None
        self.say(told_attempt(made))
        self.before = before = self.files.changed()
        self.files.write({**before, **done.contents})
        trial = self.runs.check()
        failed, against = self.judge(state.trial, trial, made)
        if against is None:
            for problem, fix in made:
                self.tried.add(attempt(problem, fix))
            proven = tuple(Made(problem, fix, self.runs.count) for problem, fix in made)
            return Point(self.files.changed(), trial, (*state.made, *proven))
        self.files.write(before)
        if failed and len(failed) < len(made):
            for problem, fix in made:
                if problem in failed:
                    self.refuse(problem, fix, against)
        elif len(made) > 1:
            # Which one is to blame shows when each is made alone.
            self.one_by_one = True
        else:
            self.refuse(*made[0], against)
        return None

    def refuse(self, problem: Diagnostic, fix: Fix, reason: str) -> None:
        """Note an edit that is not made, or taken back."""
        self.tried.add(attempt(problem, fix))
        self.taken_back.append((problem, fix, reason))

    def judge(
        self, before: Trial, after: Trial, edited: Sequence[tuple[Diagnostic, Fix]]
    ) -> tuple[list[Diagnostic], str | None]:
        """(the problems whose edits are to blame, why they are taken back; None when all is well)."""
        made = [problem for problem, _ in edited]
        if after.outcome is None or (after.status not in (0, 1) and before.status in (0, 1)):
            why = after.ended or after.complaint
            return [], f"the program fails with it ({why})" if why else "the program fails with it"
        assert before.outcome is not None
        unexplained = [n for n in after.outcome.notes if "could not be explained" in n]
        if any(note not in before.outcome.notes for note in unexplained):
            return [], "it brings a mismatch that could not be explained"
        had = Counter(map(identity, before.outcome.diagnostics))
        has = Counter(map(identity, after.outcome.diagnostics))
        failed = [
            p
            for p in made
            if has[identity(p)] >= had[identity(p)]
            and any(fault(p) == fault(q) for q in after.outcome.diagnostics if identity(q) == identity(p))
        ]
        further = before.ended != after.ended and before.ended != "finished"
        new = [p for p in after.outcome.diagnostics if identity(p) not in self.known]
        for problem in new:
            itself = next((p for p, fix in edited if same_start(p, problem) and wrote(fix, problem)), None)
            cause = itself or next((p for p in made if p not in failed and same_call(p, problem)), None)
            if cause is None and not further:
                continue
            another = cause is not None and cause.rule == problem.rule and cause.message != problem.message
            if cause is not None and (itself or (fault(cause) == fault(problem) and not another)):
                failed.append(cause)
            else:
                self.known.add(identity(problem))  # it was hidden behind the other one
        if failed:
            return failed, "the problem is still there"
        strangers = [p for p in new if identity(p) not in self.known]
        if strangers and len(made) > 1:
            return [], brings(strangers[0])
        if len(strangers) > len(made):
            return [], brings(strangers[0])
        if not self.prints_the_same(before, after, made):
            return [], "the program prints something else with it"
        return [], None

    def prints_the_same(self, before: Trial, after: Trial, made: Sequence[Diagnostic]) -> bool:
        """Whether the program still prints what it printed, as far as it prints the same twice."""
        old, new = without_devices(before.printed), without_devices(after.printed)
        if old == new or before.ended != "finished":
            return True
        if self.plain is not None and self.plain.status == 0 and without_devices(self.plain.printed) == new:
            return True  # now it prints what it prints on the CPU
        if may_alter(made):
            self.note(ALTERED)
            return True
        if self.repeats is None:
            # Time and chance may be in it, or what the program itself left on the disk.
            edited = self.files.changed()
            self.files.write(self.before)
            again = without_devices(self.runs.check().printed)
            self.files.write(edited)
            self.repeats = again == old
        return not self.repeats

    def note(self, text: str) -> None:
        """Tell the reader, once."""
        if text not in self.notes:
            self.notes.append(text)

    def go_back(self) -> bool:
        """After edits that led to new problems: back to the last good state. True when there is more to try."""
        last = self.points[-1]
        if self.files.changed() == last.changed:
            return False
        made, self.pending = self.pending, last.made
        self.files.write(last.changed)
        for one in made[len(last.made) :]:
            self.refuse(one.diagnostic, one.fix, self.reason)
        self.one_by_one, self.reason = True, NEW_PROBLEM
        return bool(made) and self.runs.count < MOST_RUNS

    def compare_plain(self, before: Trial) -> None:
        """What the program prints on the CPU must stay; the last edits are taken back until it does."""
        if before.status != 0:
            return
        while len(self.points) > 1:
            made = self.points[-1].made
            self.files.write(self.points[-1].changed)
            after = self.runs.plain()
            if after.status == 0 and after.printed == before.printed:
                return
            if after.status == 0 and self.runs.plain().printed != after.printed:
                return  # it prints something else each time
            if after.status == 0 and may_alter(m.diagnostic for m in made):
                self.note(ALTERED)
                return
            reason = (
                "the program prints something else on the CPU with it"
                if after.status == 0
                else f"the program fails on the CPU with it ({after.complaint})"
            )
            for one in made[len(self.points[-2].made) :]:
                self.refuse(one.diagnostic, one.fix, reason)
            self.points.pop()


def may_alter(problems: Iterable[Diagnostic]) -> bool:
    """Whether the numbers may be others once one of these mistakes is gone."""
    rules = all_rules()
    return any(rules[p.rule].alters_results for p in problems if p.rule in rules)


def attempt(problem: Diagnostic, fix: Fix) -> Attempt:
    """A problem with what an edit would write; of two alike on one line each is one of its own."""
    return identity(problem), tuple((edit.start.column, edit.new_text) for edit in fix.edits)


def same_call(one: Diagnostic, other: Diagnostic) -> bool:
    """Whether two problems are raised by the same operator in the same function, wherever its line is now."""
    a, b = one.raised, other.raised
    if a is None or b is None or a.location.path != b.location.path:
        return False
    shapes = [(r.location.column, r.exception, width(r.location)) for r in (a, b)]
    return shapes[0] == shapes[1] or one.message == other.message


def same_start(one: Diagnostic, other: Diagnostic) -> bool:
    """Whether two problems of one rule are raised by what begins in the same column."""
    a, b = one.raised, other.raised
    if a is None or b is None or one.rule != other.rule:
        return False
    return (a.location.path, a.location.column) == (b.location.path, b.location.column)


def width(location: object) -> int | None:
    """How long the expression is, when it ends on the line on which it begins."""
    line, end = getattr(location, "line", None), getattr(location, "end_line", None)
    if line != end:
        return None
    return getattr(location, "end_column", 0) - getattr(location, "column", 0)


def fault(problem: Diagnostic) -> str | None:
    """The expression that is out of place."""
    return next((t.expression for t in problem.tensors if t.at_fault), None)


def spot(problem: Diagnostic) -> tuple[Identity, str | None, int, int | None]:
    """A problem in its place: the same mistake may be made on several lines."""
    raised = None if problem.raised is None else problem.raised.location.line
    return identity(problem), fault(problem), problem.location.line, raised


def wrote(fix: Fix, problem: Diagnostic) -> bool:
    """Whether what is out of place contains what an edit wrote, so that the edit put it there."""
    expression = fault(problem) or ""
    return any(edit.new_text.strip() and edit.new_text.strip() in expression for edit in fix.edits)


def brings(problem: Diagnostic) -> str:
    """A new problem as a reason."""
    return f"it brings a new problem, {problem.rule} in {problem.location.path}, line {problem.location.line}"


def without_devices(printed: bytes) -> bytes:
    """Output without names of devices, which a fix may change; a printed tensor tells where it is when on a GPU."""
    printed = re.sub(rb",\s+device='cuda:\d+'(?=[,)])", b"", printed)
    return re.sub(rb"\b(cuda|cpu)(:\d+)?\b", b"DEVICE", printed)


def told_attempt(made: Iterable[tuple[Diagnostic, Fix]]) -> str:
    """One line for the terminal."""
    parts = [f"{problem.rule}: {fix.title}" for problem, fix in made]
    more = f" and {len(parts) - 1} more" if len(parts) > 1 else ""
    return f"trying {parts[0]}{more}"
