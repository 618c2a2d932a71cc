"""Where the places of an edited file are in the file as it is on the disk."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import SequenceMatcher

from samedevice.model.diagnostic import Diagnostic, Location
from samedevice.model.outcome import Outcome
from samedevice.model.relabel import relocated
from samedevice.source.decoding import decode
from samedevice.source.lines import split_lines


def on_disk(outcome: Outcome, changed: Mapping[str, tuple[bytes, bytes]]) -> Outcome:
    """The outcome with the problems that are left where they are in the unedited files.

    An edit that fits the edited text only is left out.

    Args:
        changed: path -> (what the disk has, what the last run has read).
    """
    lines = {path: old_lines(old, new) for path, (old, new) in changed.items()}

    def place(location: Location) -> Location:
        old = lines.get(location.path)
        if old is None:
            return location
        line, same = old(location.line)
        last = None if location.end_line is None else old(location.end_line)
        if same and (last is None or last[1]):
            return replace(location, line=line, end_line=None if last is None else last[0])
        return Location(location.path, line, 1)

    def placed(problem: Diagnostic) -> Diagnostic:
        fix = problem.fix
        if fix is not None and any(edit.path in lines for edit in fix.edits):
            problem = replace(problem, fix=None)
        return relocated(problem, place)

    return replace(outcome, diagnostics=tuple(placed(problem) for problem in outcome.diagnostics))


def old_lines(old: bytes, new: bytes) -> Callable[[int], tuple[int, bool]]:
    """Gives the line of the old text for one of the new text, and whether it is the same line."""
    before, after = split_lines(decode(old).text), split_lines(decode(new).text)
    blocks = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()

    def of(line: int) -> tuple[int, bool]:
        for kind, i1, i2, j1, j2 in blocks:
            if j1 < line <= j2:
                there = i1 + line - j1
                return (there, True) if kind == "equal" else (min(there, max(i2, 1)), False)
        return line, False

    return of
