"""`lint --fix`: makes fixes in memory, lints again, until nothing changes; what does no good is taken back."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from samedevice.lint.linting import Findings
from samedevice.model.diagnostic import Diagnostic
from samedevice.model.fix import Applicability, Fix
from samedevice.source.rewriting import rewrite

#: a fix may uncover the next problem so often
ROUNDS = 20

#: what a diagnostic is recognised by when its line has moved
Identity = tuple[str, str, int | None, str]


@dataclass(slots=True)
class Fixed:
    """What fixing came to.

    Attributes:
        findings: what is still to be reported.
        contents: the new bytes of each file that changes; nothing is written yet.
        made: the diagnostics that are gone, by the fix that was made.
        refused: (diagnostic, reason) for fixes that were not made, or taken back.
    """

    findings: Findings
    contents: dict[str, bytes] = field(default_factory=dict)
    made: list[Diagnostic] = field(default_factory=list)
    refused: list[tuple[Diagnostic, str]] = field(default_factory=list)


def identity(diagnostic: Diagnostic) -> Identity:
    """Rule, file, cell and wording: all that stays the same when lines move."""
    return diagnostic.rule, diagnostic.location.path, diagnostic.location.cell, diagnostic.message


def applicable(fix: Fix | None, *, unsafe: bool) -> bool:
    """Whether a fix may be made: safe ones, unsafe ones when asked for, never those to be shown only."""
    if fix is None or not fix.edits:
        return False
    return fix.applicability is Applicability.SAFE or (unsafe and fix.applicability is Applicability.UNSAFE)


def fix_all(
    lint: Callable[[dict[str, bytes]], Findings],
    read: Callable[[str], bytes],
    *,
    unsafe: bool,
    editable: Callable[[str], bool],
) -> Fixed:
    """Fix what can be fixed.

    Args:
        lint: lints with the given contents in place of those on disk.
        read: the bytes of a file on disk.
        unsafe: make unsafe fixes as well.
        editable: whether a file may be edited.
    """
    state = Fixed(lint({}))
    barred: set[Identity] = set()
    for _ in range(ROUNDS):
        candidates = [
            one
            for one in state.findings.diagnostics
            if applicable(one.fix, unsafe=unsafe)
            and identity(one) not in barred
            and all(editable(edit.path) for edit in one.fix.edits)  # type: ignore[union-attr]
        ]
        if not candidates or not round_of(state, candidates, lint, read, barred):
            break
    return state


def round_of(
    state: Fixed,
    candidates: Sequence[Diagnostic],
    lint: Callable[[dict[str, bytes]], Findings],
    read: Callable[[str], bytes],
    barred: set[Identity],
) -> bool:
    """One round; True when something was made or something must be tried without what was barred."""
    owner = {id(one.fix): one for one in candidates}

    def present(path: str) -> bytes:
        return state.contents[path] if path in state.contents else read(path)

    done = rewrite([one.fix for one in candidates if one.fix is not None], present)
    for fix, reason in done.refused:
        barred.add(identity(owner[id(fix)]))
        state.refused.append((owner[id(fix)], reason))
    made = [owner[id(fix)] for fix in done.made]
    if not made or not done.contents:
        return False
    contents = {**state.contents, **done.contents}
    after = lint(contents)
    failed = not_cured(made, state.findings.diagnostics, after.diagnostics)
    newly_broken = set(after.broken) - set(state.findings.broken)
    failed += [one for one in made if one not in failed and edits_any(one, newly_broken)]
    if failed:
        # Taken back: the round is done again without them.
        for one in failed:
            barred.add(identity(one))
            state.refused.append((one, "the problem would still be there"))
        return True
    state.findings = after
    state.contents = contents
    state.made += made
    return True


def not_cured(
    made: Iterable[Diagnostic], before: Iterable[Diagnostic], after: Iterable[Diagnostic]
) -> list[Diagnostic]:
    """Those of the fixed diagnostics that are still reported."""
    had, has = Counter(map(identity, before)), Counter(map(identity, after))
    by_identity: dict[Identity, list[Diagnostic]] = {}
    for one in made:
        by_identity.setdefault(identity(one), []).append(one)
    return [
        one
        for key, group in by_identity.items()
        # Of several alike it cannot be told which is left: so many of them as are too many, the last first.
        for one in group[max(len(group) - max(has[key] - (had[key] - len(group)), 0), 0) :]
    ]


def edits_any(diagnostic: Diagnostic, paths: Iterable[str]) -> bool:
    """Whether the fix of `diagnostic` edits one of the files."""
    edited = {edit.path for edit in diagnostic.fix.edits} if diagnostic.fix is not None else set()
    return not edited.isdisjoint(paths)
