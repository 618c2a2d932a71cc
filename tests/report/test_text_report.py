"""The text report: the product's face."""

import re
from dataclasses import replace

import pytest
import records
from hypothesis import given
from hypothesis import strategies as st

from samedevice.model.diagnostic import Confidence, Diagnostic, Evidence, Location, Severity, TensorFact
from samedevice.model.errors import UserError
from samedevice.model.outcome import Outcome
from samedevice.report import FORMATS, render
from samedevice.report.layout import cells

ANYWHERE = Location("a.py", 1)
ANSI = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("width", [80, 60])
def test_a_checked_program_reads_as_the_golden_file(golden, width):
    golden(f"report/check-{width}.txt", render(records.CHECKED, width=width, read=records.read))


def test_a_linted_tree_reads_as_the_golden_file(golden):
    golden("report/lint.txt", render(records.LINTED, read=records.read))


def test_the_concise_report_reads_as_the_golden_file(golden):
    golden("report/lint.concise.txt", render(records.LINTED, "concise"))


def test_what_was_fixed_is_told_with_its_edit_and_its_proof():
    gone = replace(records.UNREGISTERED, notes=("proven by run 2",))
    repaired = replace(records.CLEAN, fixed=(gone,), notes=("fixed 1 problem in 1 file",))

    lines = render(repaired, read=records.read).splitlines()
    told = " ".join(" ".join(lines).split())
    shown_only = render(replace(repaired, written=False), read=records.read)
    colored = render(repaired, color=True, read=records.read)

    assert lines[0].startswith("fixed[unregistered-tensor] model.py:12: ")
    assert "(proven by run 2)" in told
    assert records.UNREGISTERED.message in told
    assert lines[-2:] == [
        "note: fixed 1 problem in 1 file",
        "all clear: no device mistakes on 2 virtual GPUs; the program finished",
    ]
    assert shown_only.startswith("would fix[unregistered-tensor]")
    assert ANSI.sub("", colored).splitlines() == lines


def test_a_clean_run_is_one_line():
    actual = render(records.CLEAN, read=records.read)

    assert actual == "all clear: no device mistakes on 2 virtual GPUs; the program finished\n"


def test_a_clean_lint_says_how_many_files_it_read():
    assert render(records.EMPTY_LINT) == "all clear: no device mistakes in 12 files\n"


def test_a_program_that_ended_early_is_not_called_all_clear():
    actual = render(records.ENDED, width=200)

    assert actual == (
        "no device mistakes on 1 virtual GPU, as far as it went; "
        "the program raised ValueError: no such split: 'tets'\n"
    )


def test_the_summary_counts_problems_mismatches_and_gpus():
    actual = render(records.CHECKED, read=records.read).splitlines()[-1]

    assert actual == "2 problems (14 mismatches) on 1 virtual GPU; the program finished"


def test_the_time_of_the_run_is_said_when_it_is_known():
    actual = render(replace(records.CLEAN, seconds=3.21))

    assert actual.endswith("the program finished (3.2 s)\n")


def test_colours_change_nothing_but_colours():
    plain = render(records.CHECKED, read=records.read)
    colored = render(records.CHECKED, read=records.read, color=True)

    assert "\x1b[" in colored
    assert "\n".join(line.rstrip() for line in ANSI.sub("", colored).splitlines()) + "\n" == plain


def test_without_the_sources_the_report_still_tells_the_story():
    actual = render(records.CHECKED, read=lambda path, cell: None)

    assert "--> model.py:12:9" in actual
    assert "1. model.py:12: `self.mask` is created on cpu" in actual
    assert "^" not in actual


def test_the_carets_stand_under_the_mistake_also_in_a_cropped_line():
    lines = render(records.LINTED, read=records.read).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("3 | ..."))
    start, end = lines[at + 1].index("^"), lines[at + 1].rindex("^") + 1

    assert lines[at][start:end] == "alpha"
    assert len(lines[at]) <= 80


def test_wide_characters_take_two_columns_before_a_caret():
    text = "x = '漢字漢字' + other"
    column = text.index("other") + 1
    place = Location("a.py", 1, column, 1, column + 5)
    lines = render(Outcome("lint", (problem(place),)), read=lambda path, cell: [text]).splitlines()
    source = next(line for line in lines if line.startswith("1 | "))
    carets = lines[lines.index(source) + 1]

    assert carets.index("^") == cells(source[: source.index("other")])
    assert carets.count("^") == len("other")


def test_a_notebook_place_names_its_cell():
    place = Location("a.ipynb", 2, 1, 2, 2, cell=3)
    read = lambda path, cell: ["import torch", "x = 1"] if cell == 3 else None  # noqa: E731
    actual = render(Outcome("lint", (problem(place),)), read=read)

    assert "--> a.ipynb:cell 3:2:1" in actual
    assert "2 | x = 1" in actual


def test_hundreds_of_tensors_are_cut_to_those_that_matter():
    tensors = [TensorFact(f"p{i}", "cuda:0", shape=(2,), dtype="float32") for i in range(300)]
    tensors[200] = replace(tensors[200], device="cpu", at_fault=True)
    actual = render(Outcome("check", (replace(problem(), tensors=tuple(tensors)),)))

    assert "> p200" in actual
    assert "and 292 more on cuda:0" in actual


def test_a_long_span_is_shown_by_its_ends():
    read = lambda path, cell: [f"line {n}" for n in range(1, 40)]  # noqa: E731
    actual = render(Outcome("lint", (problem(Location("a.py", 2, 1, 30, 3)),)), read=read)

    assert " 2 | / line 2" in actual
    assert "30 | | line 30" in actual
    assert "line 15" not in actual


def test_an_unknown_format_is_an_error_that_names_the_formats():
    with pytest.raises(UserError, match="text, concise, json, sarif, github"):
        render(records.CLEAN, "xml")


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_renders_an_empty_outcome(name):
    assert isinstance(render(Outcome("lint", files=0), name), str)


def problem(location: Location = ANYWHERE, message: str = "wrong") -> Diagnostic:
    return Diagnostic("some-rule", Severity.ERROR, Confidence.CERTAIN, message, location)


words = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1, max_size=120
)


@given(message=words, expression=words, code=words, width=st.integers(40, 100))
def test_nothing_overflows_whatever_the_texts_are(message, expression, code, width):
    d = replace(
        problem(Location("a.py", 1, 3, 1, 9), message),
        tensors=(TensorFact(expression, "cuda:0", message, (1,) * 30, "float32"),),
        evidence=(Evidence(Location("a.py", 1), message),),
        help=message,
        lesson=message,
        suggestion=code,
        notes=(message,),
    )
    actual = render(
        Outcome("check", (d,), 1, f"raised {message}"), width=width, read=lambda path, cell: [code]
    )

    assert max(map(cells, actual.splitlines())) <= width
