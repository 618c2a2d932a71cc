"""The JSON report follows its committed schema."""

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import records

from samedevice.model.outcome import Outcome
from samedevice.report import render

SCHEMA = Path(__file__).parents[2] / "docs" / "schema" / "report-v1.schema.json"
OUTCOMES = [records.CHECKED, records.LINTED, records.CLEAN, records.EMPTY_LINT, records.ENDED]


def objects(schema: Any) -> Iterator[dict[str, Any]]:
    """Every object schema within `schema`."""
    if isinstance(schema, dict):
        if "properties" in schema:
            yield schema
        for value in schema.values():
            yield from objects(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from objects(value)


def strict_schema() -> Any:
    """The schema, with fields it does not know refused: they would be undocumented."""
    schema = deepcopy(json.loads(SCHEMA.read_text()))
    for part in objects(schema):
        part["additionalProperties"] = False
    return schema


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_every_report_follows_the_schema_to_the_field(outcome):
    validator = jsonschema.Draft202012Validator(strict_schema())

    validator.validate(json.loads(render(outcome, "json")))


def test_the_schema_itself_is_valid():
    jsonschema.Draft202012Validator.check_schema(json.loads(SCHEMA.read_text()))


def test_the_schema_refuses_a_report_without_a_message():
    data = json.loads(render(records.CHECKED, "json"))
    del data["diagnostics"][0]["message"]

    with pytest.raises(jsonschema.ValidationError, match="message"):
        jsonschema.validate(data, json.loads(SCHEMA.read_text()))


def test_the_report_reads_as_the_golden_file(golden):
    golden("report/check.json", render(records.CHECKED, "json"))


def test_a_fix_is_null_when_there_is_none_and_raised_is_absent_when_nothing_ran():
    first, second = json.loads(render(records.LINTED, "json"))["diagnostics"]

    assert first["fix"]["applicability"] == "unsafe"
    assert second["fix"] is None
    assert "raised" not in second


def test_occurrences_are_the_sum_of_the_counts():
    summary = json.loads(render(records.CHECKED, "json"))["summary"]

    assert (summary["problems"], summary["occurrences"]) == (2, 14)


def test_text_outside_ascii_stays_readable():
    assert "→" in render(Outcome("check", notes=("cpu → cuda:0",)), "json")
