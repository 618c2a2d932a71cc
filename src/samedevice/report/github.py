"""Workflow commands of GitHub Actions: one annotation a diagnostic, shown in the diff."""

from samedevice.model.diagnostic import Diagnostic, Severity
from samedevice.model.outcome import Outcome

_COMMAND = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def render(outcome: Outcome) -> str:
    """One line a diagnostic; empty when there is none."""
    return "".join(_annotation(d) + "\n" for d in outcome.diagnostics)


def _annotation(d: Diagnostic) -> str:
    place = d.location
    properties = {"file": place.path.replace("\\", "/")}
    if place.cell is None:
        # A line of a notebook's cell is not a line of the file that GitHub shows.
        properties["line"] = str(place.line)
        if place.end_line is not None:
            properties["endLine"] = str(place.end_line)
        if place.end_line in (None, place.line):
            # GitHub refuses columns on an annotation of several lines.
            properties["col"] = str(place.column)
            if place.end_column is not None:
                properties["endColumn"] = str(max(place.end_column - 1, place.column))
    properties["title"] = f"samedevice: {d.rule}"
    pairs = ",".join(f"{name}={_escape_property(value)}" for name, value in properties.items())
    return f"::{_COMMAND[d.severity]} {pairs}::{_escape(_message(d))}"


def _message(d: Diagnostic) -> str:
    parts = [d.message if d.location.cell is None else f"{d.location}: {d.message}"]
    if d.raised is not None:
        times = f" ({d.raised.count} times)" if d.raised.count > 1 else ""
        parts.append(f"{d.raised.location}: {d.raised.exception}{times}: {d.raised.message}")
    parts += [f"{step.location}: {step.message}" for step in d.evidence]
    if d.help:
        parts.append(f"help: {d.help}")
    if d.suggestion:
        parts.append(d.suggestion)
    return "\n".join(parts)


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")
