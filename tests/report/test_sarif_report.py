"""The SARIF report is valid and keeps the story."""

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
import records

from samedevice.model.diagnostic import Location
from samedevice.report import render

SCHEMA = json.loads((Path(__file__).parents[1] / "data" / "sarif-2.1.0-rtm.5.json").read_text())
VALIDATOR = jsonschema.Draft4Validator(SCHEMA)
OUTCOMES = [records.CHECKED, records.LINTED, records.CLEAN, records.EMPTY_LINT, records.ENDED]


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_every_report_follows_the_official_schema(outcome):
    VALIDATOR.validate(json.loads(render(outcome, "sarif")))


def test_the_official_schema_can_refuse():
    data = json.loads(render(records.CHECKED, "sarif"))
    data["runs"][0]["results"][0]["level"] = "fatal"

    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(data)


def run_of(outcome):
    return json.loads(render(outcome, "sarif"))["runs"][0]


def test_evidence_is_a_code_flow_in_the_order_of_time():
    flow = run_of(records.CHECKED)["results"][0]["codeFlows"][0]["threadFlows"][0]["locations"]

    assert [step["location"]["physicalLocation"]["artifactLocation"]["uri"] for step in flow] == [
        "model.py",
        "train.py",
        "model.py",
    ]
    assert [step["executionOrder"] for step in flow] == [1, 2, 3]


def test_a_fix_is_a_set_of_replacements():
    change = run_of(records.CHECKED)["results"][0]["fixes"][0]["artifactChanges"][0]

    assert change["replacements"][0] == {
        "deletedRegion": {"startLine": 12, "startColumn": 9, "endLine": 12, "endColumn": 21},
        "insertedContent": {"text": 'self.register_buffer("mask", '},
    }


def test_the_results_point_at_the_rules_of_the_tool():
    run = run_of(records.LINTED)
    rules = run["tool"]["driver"]["rules"]

    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in run["results"])


def test_a_known_rule_brings_its_page():
    from samedevice.rules import all_rules

    rule = next(iter(all_rules().values()), None)
    if rule is None:
        pytest.skip("no rule yet")
    found = replace(records.TARGET, rule=rule.name)
    help_text = run_of(replace(records.CHECKED, diagnostics=(found,)))["tool"]["driver"]["rules"][0]["help"]

    assert help_text["markdown"] == rule.documentation


def test_the_place_in_a_notebook_goes_by_name():
    cell = replace(records.TARGET, location=Location("a.ipynb", 2, cell=3))
    outcome = replace(records.CHECKED, diagnostics=(cell,))
    VALIDATOR.validate(json.loads(render(outcome, "sarif")))
    place = run_of(outcome)["results"][0]["locations"][0]

    assert place["logicalLocations"][0]["name"] == "cell 3, line 2"
    assert "region" not in place["physicalLocation"]


def test_paths_are_written_as_uris():
    odd = replace(records.TARGET, location=Location("my code/a#b.py", 2))
    place = run_of(replace(records.CHECKED, diagnostics=(odd,)))["results"][0]["locations"][0]

    assert place["physicalLocation"]["artifactLocation"] == {
        "uri": "my%20code/a%23b.py",
        "uriBaseId": "%SRCROOT%",
    }


def test_a_program_that_died_is_told_as_a_notification():
    notes = run_of(records.ENDED)["invocations"][0]["toolExecutionNotifications"]

    assert notes[-1]["message"]["text"] == "the program raised ValueError: no such split: 'tets'"
