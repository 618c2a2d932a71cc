"""The text report: what is wrong, where, the story behind it, how to write it right."""

from collections import Counter
from collections.abc import Iterable, Sequence

from samedevice.model.diagnostic import Confidence, Diagnostic, Evidence, Location, Raised
from samedevice.model.fix import Applicability, Fix
from samedevice.model.outcome import Outcome
from samedevice.report.excerpt import Files, ReadLines, excerpt, source_line
from samedevice.report.layout import Line, Span, cut, line_cells, plain, prose, wrap
from samedevice.report.tensors import tensor_table

#: narrower than this the report is no longer readable
NARROWEST = 40


def render(
    outcome: Outcome,
    *,
    color: bool = False,
    width: int = 80,
    root: str | None = None,
    read: ReadLines | None = None,
) -> str:
    """The report as text of at most `width` columns."""
    lines = report_lines(outcome, width=width, read=read if read is not None else Files(root))
    if color:
        from samedevice.report.terminal import colored

        return colored(lines)
    return plain(lines)


def report_lines(outcome: Outcome, *, width: int, read: ReadLines) -> list[Line]:
    """The whole report, the summary last."""
    width = max(width, NARROWEST)
    lines: list[Line] = []
    for diagnostic in outcome.diagnostics:
        lines += diagnostic_lines(diagnostic, outcome.command, width=width, read=read)
        lines.append(())
    for one in outcome.fixed:
        lines += fixed_lines(one, width, written=outcome.written)
    if outcome.fixed:
        lines.append(())
    for note in outcome.notes:
        lines += _labelled("note", note, width, "")
    return lines + summary_lines(outcome, width)


def diagnostic_lines(diagnostic: Diagnostic, command: str, *, width: int, read: ReadLines) -> list[Line]:
    """One diagnostic, from its headline to its fix."""
    d = diagnostic
    strong = str(d.severity)
    places = [d.location, *(e.location for e in d.evidence), *([d.raised.location] if d.raised else [])]
    gutter = max(len(str(place.end_line or place.line)) for place in places)
    indent = " " * (gutter + 2)
    lines = wrap(
        [Span(f"{d.severity}[{d.rule}]", strong), Span(" "), *prose(d.message, "headline", "headline")],
        width,
        rest=[Span(indent)],
    )
    sure = "" if d.confidence is Confidence.CERTAIN else f"  ({d.confidence} cause)"
    lines.append(
        (
            Span(" " * gutter + "--> ", "gutter"),
            Span(str(d.location), "path"),
            *([Span(sure, "dim")] * bool(sure)),
        )
    )
    lines += excerpt(d.location, read, width, gutter, strong)
    sections: list[list[Line]] = [
        tensor_table(d.tensors, width, indent, d.location.path),
        _story(d.evidence, width, indent, read),
        _raised(d.raised, d, command, width, indent, read),
    ]
    for section in sections:
        if section:
            lines += [(), *section]
    advice = _advice(d, command, width, indent)
    return [*lines, (), *advice] if advice else lines


def fixed_lines(diagnostic: Diagnostic, width: int, *, written: bool) -> list[Line]:
    """A problem that is gone: which edit took it out, and what proves it."""
    d = diagnostic
    label = f"{'fixed' if written else 'would fix'}[{d.rule}]"
    title = "" if d.fix is None else f": {d.fix.title}"
    proof = f" ({'; '.join(d.notes)})" if d.notes else ""
    first = [Span(label, "good"), Span(" "), Span(_place(d.location), "path")]
    lines = wrap([*first, *prose(title), Span(proof, "dim")], width, rest=[Span("   ")])
    return lines + wrap(prose(d.message), width, [Span("   ")], [Span("   ")])


def _story(evidence: Sequence[Evidence], width: int, indent: str, read: ReadLines) -> list[Line]:
    """The evidence as numbered steps, each with its place and its source line."""
    if not evidence:
        return []
    lines: list[Line] = [(Span(f"{indent}how it came about", "title"),)]
    digits = len(str(len(evidence)))
    hang = indent + " " * (digits + 3)
    for number, step in enumerate(evidence, 1):
        lines += wrap(
            [Span(_place(step.location), "path"), Span(": "), *prose(step.message)],
            width,
            [Span(f"{indent} {number:>{digits}}. ", "number")],
            [Span(hang + "    ")],
        )
        text = source_line(step.location, read)
        if text is not None:
            lines.append(_code_line(text, width, hang))
    return lines


def _place(location: Location) -> str:
    """`file:line`; the column says nothing in a story."""
    return str(location).rsplit(":", 1)[0]


def _code_line(text: str, width: int, indent: str) -> Line:
    return (Span(indent), Span("| ", "gutter"), Span(cut(text, width - len(indent) - 2), "source"))


def _raised(
    raised: Raised | None, d: Diagnostic, command: str, width: int, indent: str, read: ReadLines
) -> list[Line]:
    """Where PyTorch raises and its exact words."""
    if raised is None:
        return []
    times = f", {_times(raised.count)} in this run" if raised.count > 1 else ""
    if command == "check":
        head = [Span("on CUDA, ", ""), Span(_place(raised.location), "path"), Span(f" would raise{times}:")]
    else:
        head = [Span(_place(raised.location), "path"), Span(f" raised{times}:")]
    lines = wrap(head, width, [Span(indent)], [Span(indent + "  ")])
    known = {
        (place.path, place.line, place.cell) for place in (d.location, *(e.location for e in d.evidence))
    }
    where = raised.location
    text = source_line(where, read) if (where.path, where.line, where.cell) not in known else None
    if text is not None:
        lines.append(_code_line(text, width, indent + "  "))
    words = f"{raised.exception}: {raised.message}" if raised.message else raised.exception
    for number, part in enumerate(words.splitlines()):
        blank = part[: len(part) - len(part.lstrip())]
        hang = indent + "  " + blank
        lines += wrap([Span(part, "raised")], width, [Span(hang)], [Span(hang if number else hang + "  ")])
    return lines


def _times(count: int) -> str:
    return "once" if count == 1 else "twice" if count == 2 else f"{count} times"


def _advice(d: Diagnostic, command: str, width: int, indent: str) -> list[Line]:
    """The lesson, the remedy, the code to write, the fix and the notes."""
    lines: list[Line] = []
    if d.lesson:
        lines += _labelled("lesson", d.lesson, width, indent)
    if d.help or d.suggestion:
        lines += _labelled("help", d.help or "write it like this", width, indent)
    if d.suggestion:
        lines += _block(d.suggestion, width, indent)
    if d.fix is not None:
        lines += _labelled("fix", f"{d.fix.title} ({_how(d.fix, command)})", width, indent)
    for note in d.notes:
        lines += _labelled("note", note, width, indent)
    if d.ranks:
        ranks = ", ".join(map(str, d.ranks))
        lines += _labelled("note", f"found in rank{'s' * (len(d.ranks) > 1)} {ranks}", width, indent)
    elif d.processes > 1:
        lines += _labelled("note", f"found in {d.processes} processes", width, indent)
    return lines


def _how(fix: Fix, command: str) -> str:
    """How safe a fix is and what makes it."""
    if fix.applicability is Applicability.DISPLAY or not fix.edits:
        return "to apply by hand"
    if command in ("check", "lint"):
        more = " --unsafe-fixes" if fix.applicability is Applicability.UNSAFE else ""
        return f"{fix.applicability}: `--fix{more}` makes it"
    return "unsafe: read it before you apply it" if fix.applicability is Applicability.UNSAFE else "safe"


def _labelled(label: str, text: str, width: int, indent: str) -> list[Line]:
    first = [Span(f"{indent}{label}: ", label)]
    return wrap(prose(text), width, first, [Span(" " * line_cells(first))])


def _block(code: str, width: int, indent: str) -> list[Line]:
    """Source text as a block; its line breaks are kept, lines too long go on below."""
    lines: list[Line] = []
    for text in code.expandtabs(4).splitlines():
        bare = text.lstrip(" ")
        first: list[Span] = [Span(f"{indent}  | ", "gutter"), Span(" " * (len(text) - len(bare)))]
        lines += (
            wrap([Span(bare, "suggestion")], width, first, [*first, Span("    ")]) if bare else [tuple(first)]
        )
    return lines


def summary_lines(outcome: Outcome, width: int) -> list[Line]:
    """How many problems there are, how often they fired, how the program ended."""
    found = len(outcome.diagnostics)
    if outcome.program is None:
        where = "" if outcome.files is None else f" in {_count(outcome.files, 'file')}"
        end = ""
    else:
        gpus = outcome.virtual_gpus
        where = "" if gpus is None else f" on {_count(gpus, 'virtual GPU')}"
        where += "" if outcome.ranks is None else f" in {_count(outcome.ranks, 'rank')}"
        end = f"; the program {outcome.program}"
    after = f" ({outcome.suppressed} suppressed)" if outcome.suppressed else ""
    if outcome.seconds is not None:
        end += f" ({outcome.seconds:.1f}\xa0s)"
    if found:
        text = f"{_count(found, 'problem')}{_details(outcome)}{where}{end}{after}"
        return wrap(prose(text, "bad", "bad"), width)
    if outcome.command == "profile":
        return wrap(prose(f"nothing costs more than it need{where}{end}{after}"), width)
    if outcome.program in (None, "finished"):
        return wrap([Span("all clear: ", "good"), *prose(f"no device mistakes{where}{end}{after}")], width)
    # A program that ended early may still have mistakes in what it did not reach.
    return wrap(prose(f"no device mistakes{where}, as far as it went{end}{after}"), width)


def _details(outcome: Outcome) -> str:
    severities = Counter(str(d.severity) for d in outcome.diagnostics)
    parts = []
    if len(severities) > 1:
        names = {"error": "error", "warning": "warning", "info": "hint"}
        parts += [_count(severities[s], name) for s, name in names.items() if severities[s]]
    if outcome.occurrences > len(outcome.diagnostics) and outcome.command != "profile":
        parts.append(_count(outcome.occurrences, "mismatch", "mismatches"))
    return f" ({', '.join(parts)})" if parts else ""


def _count(number: int, noun: str, plural: str | None = None) -> str:
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def widest(lines: Iterable[Line]) -> int:
    """Columns of the widest line."""
    return max((line_cells(line) for line in lines), default=0)
