"""`lint --fix` and `--diff`: fixes made, written, shown, and told about."""

import argparse
import sys
from collections.abc import Mapping, Sequence

from samedevice.lint.fixer import applicable, fix_all
from samedevice.lint.linting import Findings, Linter
from samedevice.lint.workspace import read_file
from samedevice.model.diagnostic import Diagnostic
from samedevice.model.errors import UserError
from samedevice.source.rewriting import unified_diff
from samedevice.source.writing import write_atomically


def fix_group(
    linter: Linter, paths: Sequence[str], piped: Mapping[str, bytes], options: argparse.Namespace
) -> tuple[Findings, dict[str, bytes], list[str]]:
    """Fix files; returns what is left to report, the new contents by path, and what to tell of it.

    Files are written, unless only a diff is asked for; standard input never is.

    Raises:
        UserError: a file cannot be written.
    """

    def read(path: str) -> bytes:
        return piped[path] if path in piped else read_file(path)

    given = set(paths)
    fixed = fix_all(
        lambda contents: linter.lint(paths, {**piped, **contents}),
        read,
        unsafe=options.unsafe_fixes,
        editable=given.__contains__,
    )
    if not options.diff:
        for path, new in fixed.contents.items():
            if path not in piped:
                try:
                    write_atomically(path, new, expected=read(path))
                except OSError as error:
                    raise UserError(f"cannot write `{path}`: {error.strerror or error}") from None
    return (
        fixed.findings,
        fixed.contents,
        told(fixed.made, fixed.contents, fixed.refused, fixed.findings, options),
    )


def told(
    made: Sequence[Diagnostic],
    contents: Mapping[str, bytes],
    refused: Sequence[tuple[Diagnostic, str]],
    findings: Findings,
    options: argparse.Namespace,
) -> list[str]:
    """What to say of the fixes: those made, those not made and why, those that an option would make."""
    notes = []
    if made:
        would = "would fix" if options.diff else "fixed"
        notes.append(f"{would} {counted(len(made), 'problem')} in {counted(len(contents), 'file')}")
    seen = set()
    for diagnostic, reason in refused:
        line = f"{diagnostic.location}: the fix of {diagnostic.rule} was not made: {reason}"
        if line not in seen:
            seen.add(line)
            notes.append(line)
    if not options.unsafe_fixes:
        more = sum(
            applicable(one.fix, unsafe=True) and not applicable(one.fix, unsafe=False)
            for one in findings.diagnostics
        )
        if more:
            notes.append(
                f"--unsafe-fixes would fix {counted(more, 'more problem')}"
                if made
                else f"--unsafe-fixes would fix {counted(more, 'problem')}"
            )
    return notes


def counted(number: int, noun: str) -> str:
    """The number with its noun."""
    return f"{number} {noun}{'s' * (number != 1)}"


def show_changes(piped: Mapping[str, bytes], contents: Mapping[str, bytes], *, diff: bool) -> None:
    """Write diffs, or the fixed standard input, to standard output."""
    sys.stdout.flush()
    out = sys.stdout.buffer
    if diff:
        for path, new in sorted(contents.items()):
            old = piped[path] if path in piped else read_file(path)
            out.write(unified_diff(path, old, new).encode("utf-8", "surrogateescape"))
    else:
        for path, data in piped.items():
            out.write(contents.get(path, data))
    out.flush()
