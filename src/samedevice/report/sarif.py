"""SARIF 2.1.0, for code scanning: evidence becomes a code flow, fixes become `fixes`."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import PurePath, PurePosixPath
from typing import Any
from urllib.parse import quote

from samedevice._version import __version__
from samedevice.model.diagnostic import Confidence, Diagnostic, Location, Severity
from samedevice.model.fix import Applicability, Edit, Fix
from samedevice.model.outcome import Outcome

_LEVEL = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_RANK = {Confidence.CERTAIN: 100.0, Confidence.LIKELY: 66.0, Confidence.POSSIBLE: 33.0}


def render(outcome: Outcome) -> str:
    """The report as a SARIF log of one run."""
    names = sorted({d.rule for d in outcome.diagnostics})
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "samedevice",
                        "version": __version__,
                        "semanticVersion": __version__,
                        "rules": [_rule(name) for name in names],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "invocations": [_invocation(outcome)],
                "results": [_result(d, names.index(d.rule)) for d in outcome.diagnostics],
                **_fixed(outcome),
            }
        ],
    }
    return json.dumps(log, indent=2, ensure_ascii=False) + "\n"


def _fixed(outcome: Outcome) -> dict[str, Any]:
    """The problems that `check --fix` has taken out: no results any more, but worth knowing."""
    if not outcome.fixed:
        return {}
    found = [
        {
            "ruleId": d.rule,
            "message": {"text": _message(d)},
            "locations": [_location(d.location)],
            "fix": None if d.fix is None else d.fix.title,
        }
        for d in outcome.fixed
    ]
    return {"properties": {"fixed": found}}


def _rule(name: str) -> dict[str, Any]:
    from samedevice.rules import all_rules

    rule = all_rules().get(name)
    if rule is None:
        # A rule of a plug-in that is not loaded here: its name is all that is known.
        return {"id": name, "name": name}
    help_text = {"text": rule.lesson or rule.summary, "markdown": rule.documentation}
    return {
        "id": name,
        "name": name,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.lesson or rule.summary},
        "help": help_text,
        "defaultConfiguration": {"level": _LEVEL[rule.severity]},
        "properties": {"tags": ["pytorch", rule.category, rule.group]},
    }


def _invocation(outcome: Outcome) -> dict[str, Any]:
    notes = [{"level": "note", "message": {"text": note}} for note in outcome.notes]
    if outcome.program not in (None, "finished"):
        text = f"the program {outcome.program}"
        notes.append({"level": "warning", "message": {"text": text}})
    return {"executionSuccessful": True, **({"toolExecutionNotifications": notes} if notes else {})}


def _result(d: Diagnostic, index: int) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": d.rule,
        "ruleIndex": index,
        "level": _LEVEL[d.severity],
        "rank": _RANK[d.confidence],
        "message": {"text": _message(d)},
        "locations": [_location(d.location)],
        "partialFingerprints": {"samedevice/v1": _fingerprint(d)},
    }
    if d.count > 1:
        result["occurrenceCount"] = d.count
    if d.raised is not None:
        text = f"PyTorch raises here: {d.raised.exception}: {d.raised.message}"
        result["relatedLocations"] = [{"id": 1, **_location(d.raised.location, text)}]
    if d.evidence:
        steps = [
            {"location": _location(step.location, step.message), "executionOrder": number}
            for number, step in enumerate(d.evidence, 1)
        ]
        result["codeFlows"] = [{"threadFlows": [{"locations": steps}]}]
    if d.fix is not None and _is_edit(d.fix):
        result["fixes"] = [_fix(d.fix)]
    properties: dict[str, Any] = {"confidence": str(d.confidence)}
    if d.tensors:
        properties["tensors"] = [
            {"expression": fact.expression, "device": fact.device, "at_fault": fact.at_fault}
            for fact in d.tensors
        ]
    if d.suggestion:
        properties["suggestion"] = d.suggestion
    if d.ranks:
        properties["ranks"] = list(d.ranks)
    if d.processes > 1:
        properties["processes"] = d.processes
    return result | {"properties": properties}


def _message(d: Diagnostic) -> str:
    parts = [d.message, *([f"Help: {d.help}"] if d.help else []), *(f"Note: {note}" for note in d.notes)]
    return "\n".join(parts)


def _fingerprint(d: Diagnostic) -> str:
    """The same for the same mistake after lines above it have come or gone."""
    text = "\0".join((d.rule, _uri(d.location.path), d.message))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _uri(path: str) -> str:
    """A relative reference with forward slashes, or a `file:` URI for an absolute path."""
    pure = PurePath(path)
    if pure.is_absolute():
        return pure.as_uri()
    return quote(str(PurePosixPath(*pure.parts)))


def _artifact(path: str) -> dict[str, Any]:
    uri = _uri(path)
    return {"uri": uri} if uri.startswith("file:") else {"uri": uri, "uriBaseId": "%SRCROOT%"}


def _region(location: Location) -> dict[str, Any]:
    region = {"startLine": location.line, "startColumn": location.column}
    if location.end_line is not None:
        region["endLine"] = location.end_line
    if location.end_column is not None:
        region["endColumn"] = location.end_column
    return region


def _location(location: Location, message: str | None = None) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": _artifact(location.path)}
    data: dict[str, Any] = {"physicalLocation": physical}
    if location.cell is None:
        physical["region"] = _region(location)
    else:
        # Lines count within the cell, and SARIF knows no cells: the place goes by name.
        name = f"cell {location.cell}, line {location.line}"
        data["logicalLocations"] = [{"name": name, "kind": "module"}]
    if message is not None:
        data["message"] = {"text": message}
    return data


def _is_edit(fix: Fix) -> bool:
    """Whether a viewer may offer the fix as a change of files."""
    edits = fix.edits
    return (
        bool(edits) and fix.applicability is not Applicability.DISPLAY and all(e.cell is None for e in edits)
    )


def _fix(fix: Fix) -> dict[str, Any]:
    by_path: dict[str, list[Edit]] = {}
    for edit in fix.edits:
        by_path.setdefault(edit.path, []).append(edit)
    return {
        "description": {"text": fix.title},
        "artifactChanges": [
            {"artifactLocation": _artifact(path), "replacements": _replacements(edits)}
            for path, edits in by_path.items()
        ],
        "properties": {"applicability": str(fix.applicability)},
    }


def _replacements(edits: Sequence[Edit]) -> list[dict[str, Any]]:
    return [
        {
            "deletedRegion": {
                "startLine": edit.start.line,
                "startColumn": edit.start.column,
                "endLine": edit.end.line,
                "endColumn": edit.end.column,
            },
            "insertedContent": {"text": edit.new_text},
        }
        for edit in edits
    ]
