"""Annotations as GitHub Actions reads them."""

from dataclasses import replace

import records

from samedevice.model.diagnostic import Location
from samedevice.report import render


def test_the_report_reads_as_the_golden_file(golden):
    golden("report/check.github.txt", render(records.CHECKED, "github"))


def test_a_clean_run_annotates_nothing():
    assert render(records.CLEAN, "github") == ""


def test_an_annotation_is_one_line_with_its_special_characters_escaped():
    odd = replace(
        records.TARGET, message="50 % off\nhere", location=Location("a,b:c.py", 1), raised=None, help=None
    )
    actual = render(replace(records.CHECKED, diagnostics=(odd,)), "github")

    assert actual.count("\n") == 1
    assert "file=a%2Cb%3Ac.py" in actual
    assert "::50 %25 off%0Ahere" in actual


def test_an_annotation_of_several_lines_has_no_columns():
    actual = render(replace(records.CHECKED, diagnostics=(records.TARGET,)), "github")

    assert actual.startswith("::error file=train.py,line=6,endLine=9,title=")
