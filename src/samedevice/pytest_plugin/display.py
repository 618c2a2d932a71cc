"""What is printed: the explanation below a test's traceback, and each cause once at the end."""

from collections.abc import Sequence
from typing import Any, Final

from samedevice.report.layout import Line, Span, plain, prose, wrap

SECTION: Final = "samedevice: why it failed"

#: tests that are named below their common cause
MOST_TESTS: Final = 5


def add_section(report: Any) -> None:
    """Give a report its explanation as a section of its own."""
    text = plain(_lines(report)).rstrip("\n")
    if hasattr(report.longrepr, "addsection"):
        report.longrepr.addsection(SECTION, text)
    else:
        # A doctest's or collector's own kind of failure has no sections, the report itself has.
        report.sections.append((SECTION, text))


def _lines(report: Any) -> list[Line]:
    return [tuple(Span(text, style) for text, style in line) for line in report.samedevice["lines"]]


def prepare(terminal: Any) -> None:
    """Before failures are printed: colours, and a cause that was told in full is not told in full again."""
    told: dict[Any, str] = {}
    for report in (*terminal.stats.get("error", ()), *terminal.stats.get("failed", ())):
        found = getattr(report, "samedevice", {})
        if "lines" not in found:
            continue
        lines = _lines(report)
        cause = found.get("cause")
        if cause is not None:
            name = str(getattr(report, "head_line", None) or report.nodeid)
            first = told.setdefault((cause["rule"], cause["path"], cause["line"]), name)
            if first != name and terminal.config.get_verbosity() <= 0:
                lines = [
                    *_headline(cause, _width(terminal)),
                    (Span(f"    explained above, at {first}", "dim"),),
                ]
        _replace(report, _text(lines, terminal).rstrip("\n"))


def _replace(report: Any, text: str) -> None:
    for sections in (getattr(report.longrepr, "sections", []), report.sections):
        for index, section in enumerate(sections):
            if section[0] == SECTION:
                sections[index] = (SECTION, text, *section[2:])


def _width(terminal: Any) -> int:
    return max(60, min(int(terminal._tw.fullwidth), 120))


def _text(lines: Sequence[Line], terminal: Any) -> str:
    if not terminal.hasmarkup:
        return plain(lines)
    from samedevice.report.terminal import colored

    return colored(lines)


def _headline(cause: dict[str, Any], width: int) -> list[Line]:
    severity = cause["severity"]
    return wrap(
        [
            Span(f"{severity}[{cause['rule']}]", severity),
            Span(" "),
            Span(f"{cause['path']}:{cause['line']}:", "path"),
            Span(" "),
            *prose(cause["message"]),
        ],
        width,
        rest=[Span("    ")],
    )


def reports_of(terminal: Any) -> list[Any]:
    """The reports of tests that ran on virtual GPUs."""
    return [r for kept in terminal.stats.values() for r in kept if hasattr(r, "samedevice")]


def summarise(notes: Sequence[str], terminal: Any) -> None:
    """How many tests ran on virtual GPUs, and by which mistakes tests failed: each once."""
    reports = reports_of(terminal)
    if terminal.config.get_verbosity() < -1:
        return
    ran: dict[str, int] = {}
    used: set[str] = set()
    causes: dict[Any, tuple[dict[str, Any], dict[str, None]]] = {}
    failed: set[str] = set()
    for report in reports:
        found, name = report.samedevice, str(report.nodeid)
        if getattr(report, "when", None) == "call":
            ran[name] = found["gpus"]
            if found.get("used"):
                used.add(name)
        cause = found.get("cause")
        if cause is not None and report.failed:
            failed.add(name)
            key = (cause["rule"], cause["path"], cause["line"])
            causes.setdefault(key, (cause, {}))[1][name] = None
    if not ran and not causes:
        return
    width = _width(terminal)
    lines: list[Line] = []
    for cause, names in causes.values():
        lines += _headline(cause, width)
        shown = list(names)[:MOST_TESTS]
        lines += [(Span(f"    {name}", "dim"),) for name in shown]
        if len(names) > len(shown):
            lines.append((Span(f"    and {len(names) - len(shown)} more", "dim"),))
    for note in notes:
        lines += wrap([Span("note: ", "note"), *prose(note)], width, rest=[Span("      ")])
    lines += wrap(prose(_counts(ran, used, failed, len(causes)), "bad" if failed else "good"), width)
    terminal.section("virtual GPUs")
    terminal._tw.write(_text(lines, terminal))


def _counts(ran: dict[str, int], used: set[str], failed: set[str], causes: int) -> str:
    numbers = set(ran.values())
    gpus = _many(next(iter(numbers)), "virtual GPU") if len(numbers) == 1 else "virtual GPUs"
    text = f"{_many(len(ran), 'test')} ran with {gpus}, {len(used)} used {'it' if numbers == {1} else 'one'}"
    if not failed:
        return f"{text}; no device mistakes"
    return f"{text}; {_many(len(failed), 'test')} failed by {_many(causes, 'device mistake')}"


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
