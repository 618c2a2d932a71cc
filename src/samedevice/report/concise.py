"""One line a diagnostic, as editors and `grep` like it; evidence and help indented below."""

from collections.abc import Iterator

from samedevice.model.fix import Applicability
from samedevice.model.outcome import Outcome
from samedevice.report.layout import Line, Span, plain, prose
from samedevice.report.text import summary_lines


def render(outcome: Outcome, *, color: bool = False) -> str:
    """The report with `path:line:column:` in front of each problem; lines are not wrapped."""
    lines = [*_lines(outcome), *summary_lines(outcome, width=10_000)]
    if color:
        from samedevice.report.terminal import colored

        return colored(lines)
    return plain(lines)


def _lines(outcome: Outcome) -> Iterator[Line]:
    for d in outcome.diagnostics:
        fixable = d.fix is not None and d.fix.edits and d.fix.applicability is not Applicability.DISPLAY
        yield (
            Span(f"{d.location}", "path"),
            Span(": "),
            Span(f"{d.severity}[{d.rule}]", str(d.severity)),
            Span(" [*] " if fixable else " ", "fix"),
            *prose(d.message),
        )
        for step in d.evidence:
            yield (Span("  "), Span(str(step.location), "path"), Span(": "), *prose(step.message))
        if d.fix is not None:
            how = "" if d.fix.applicability is Applicability.SAFE else f" ({d.fix.applicability} fix)"
            yield (Span("  help: ", "help"), *prose(d.fix.title + how))
        elif d.help:
            yield (Span("  help: ", "help"), *prose(d.help))
