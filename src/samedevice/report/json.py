"""The JSON report, version 1: `docs/schema/report-v1.schema.json` describes it.

Within a version fields are only added. Unknown facts are left out of locations and tensors;
a diagnostic always has all its fields, apart from `raised`, which a static engine does not know.
"""

import json
from typing import Any

from samedevice._version import __version__
from samedevice.model.diagnostic import Diagnostic, Evidence, Location, Raised, TensorFact
from samedevice.model.fix import Fix, Point
from samedevice.model.outcome import Outcome

VERSION = 1


def render(outcome: Outcome) -> str:
    """The report as one indented JSON object."""
    return json.dumps(report_data(outcome), indent=2, ensure_ascii=False) + "\n"


def report_data(outcome: Outcome) -> dict[str, Any]:
    """The report as plain dictionaries and lists, keys in the order of the documentation."""
    return {
        "version": VERSION,
        "tool": "samedevice",
        "tool_version": __version__,
        "command": outcome.command,
        "summary": {
            "problems": len(outcome.diagnostics),
            "occurrences": outcome.occurrences,
            "virtual_gpus": outcome.virtual_gpus,
            "program": outcome.program,
            "files": outcome.files,
            "suppressed": outcome.suppressed,
            **({} if outcome.ranks is None else {"ranks": outcome.ranks}),
        },
        "notes": list(outcome.notes),
        "diagnostics": [diagnostic_data(d) for d in outcome.diagnostics],
    } | ({"fixed": [diagnostic_data(d) for d in outcome.fixed]} if outcome.fixed else {})


def diagnostic_data(d: Diagnostic) -> dict[str, Any]:
    """One diagnostic as plain data."""
    data: dict[str, Any] = {
        "rule": d.rule,
        "severity": str(d.severity),
        "confidence": str(d.confidence),
        "message": d.message,
        "location": location_data(d.location),
    }
    if d.raised is not None:
        data["raised"] = _raised(d.raised)
    return data | {
        "count": d.count,
        "tensors": [_tensor(fact) for fact in d.tensors],
        "evidence": [_evidence(step) for step in d.evidence],
        "help": d.help,
        "lesson": d.lesson,
        "suggestion": d.suggestion,
        "fix": None if d.fix is None else _fix(d.fix),
        "notes": list(d.notes),
        "ranks": list(d.ranks),
        **({} if d.processes == 1 else {"processes": d.processes}),
    }


def location_data(location: Location) -> dict[str, Any]:
    """A place; the end and the notebook cell only when known."""
    data: dict[str, Any] = {"path": location.path, "line": location.line, "column": location.column}
    for name in ("end_line", "end_column", "cell"):
        if (value := getattr(location, name)) is not None:
            data[name] = value
    return data


def _raised(raised: Raised) -> dict[str, Any]:
    return location_data(raised.location) | {
        "class": raised.exception,
        "message": raised.message,
        "count": raised.count,
    }


def _tensor(fact: TensorFact) -> dict[str, Any]:
    data: dict[str, Any] = {"expression": fact.expression}
    if fact.owner is not None:
        data["owner"] = fact.owner
    data["device"] = fact.device
    if fact.shape is not None:
        data["shape"] = list(fact.shape)
    if fact.dtype is not None:
        data["dtype"] = fact.dtype
    if fact.born is not None:
        data["born"] = location_data(fact.born)
    data["at_fault"] = fact.at_fault
    return data


def _evidence(step: Evidence) -> dict[str, Any]:
    return {"location": location_data(step.location), "message": step.message}


def _point(point: Point) -> dict[str, int]:
    return {"line": point.line, "column": point.column}


def _fix(fix: Fix) -> dict[str, Any]:
    return {
        "title": fix.title,
        "applicability": str(fix.applicability),
        "edits": [
            {
                "path": edit.path,
                **({} if edit.cell is None else {"cell": edit.cell}),
                "start": _point(edit.start),
                "end": _point(edit.end),
                "new_text": edit.new_text,
            }
            for edit in fix.edits
        ],
    }
