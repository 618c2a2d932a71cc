"""Suppression comments silence what they name where they stand, and tell when they silence nothing."""

from dataclasses import replace

import pytest

from samedevice.model.diagnostic import Confidence, Diagnostic, Evidence, Location, Severity
from samedevice.source.rewriting import apply_edits
from samedevice.source.suppressions import find_suppressions, silence, unused_suppressions


def problem(rule: str, line: int, end_line: int | None = None, cell: int | None = None) -> Diagnostic:
    where = Location("a.py", line, 1, end_line, 2 if end_line else None, cell)
    return Diagnostic(rule, Severity.ERROR, Confidence.CERTAIN, "m", where)


def silenced(text: str, *problems: Diagnostic) -> int:
    return silence(problems, find_suppressions(text))[1]


KNOWN = ("one", "two", "three")


def unused(text: str, *problems: Diagnostic, judged=KNOWN, all_judged=True) -> list[Diagnostic]:
    comments = find_suppressions(text)
    silence(problems, comments)
    return unused_suppressions(
        "a.py",
        comments,
        judged=lambda rule: rule in judged,
        stranger=lambda rule: None if rule in KNOWN else f"there is no rule `{rule}`",
        all_judged=all_judged,
        last_line=lambda cell: text.count("\n") + 1,
    )


def fixed(text: str, *problems: Diagnostic, **kw) -> str:
    edits = [edit for one in unused(text, *problems, **kw) if one.fix for edit in one.fix.edits]
    return apply_edits(text, edits)


def test_a_comment_silences_the_rule_it_names_on_its_line():
    assert silenced("x = 1  # samedevice: ignore[one] because\n", problem("one", 1)) == 1


def test_it_silences_no_other_rule_and_no_other_line():
    text = "x = 1  # samedevice: ignore[one]\ny = 2\n"

    assert silenced(text, problem("two", 1), problem("one", 2)) == 0


def test_several_rules_may_be_named():
    assert silenced("x = 1  # samedevice: ignore[one, two]\n", problem("one", 1), problem("two", 1)) == 2


def test_without_a_list_it_silences_everything():
    assert silenced("x = 1  # samedevice: ignore\n", problem("one", 1), problem("two", 1)) == 2


def test_it_may_stand_anywhere_in_the_span_of_the_problem():
    text = "f(\n    a,\n    b,  # samedevice: ignore[one]\n)\n"

    assert silenced(text, problem("one", 1, 4)) == 1
    assert silenced(text, problem("one", 1, 2)) == 0


def test_one_that_names_the_rule_may_stand_where_the_story_goes_through():
    story = replace(problem("one", 1), evidence=(Evidence(Location("a.py", 3), "met here"),))
    text = "x = 1\ny = 2\nz = x + y  # samedevice: ignore{}\n"

    assert silenced(text.format("[one]"), story) == 1
    assert silenced(text.format("[two]"), story) == 0
    assert silenced(text.format(""), story) == 0


def test_a_story_in_another_file_does_not_count():
    story = replace(problem("one", 1), evidence=(Evidence(Location("b.py", 3), "met here"),))

    assert silenced("x = 1\ny = 2\nz = x + y  # samedevice: ignore[one]\n", story) == 0


def test_on_a_line_of_its_own_it_silences_the_next_line_of_code():
    text = "# samedevice: ignore[one] why\n\n# more\nx = 1\ny = 2\n"

    assert silenced(text, problem("one", 4)) == 1
    assert silenced(text, problem("one", 5)) == 0


def test_a_comment_after_code_says_nothing_about_the_next_line():
    assert silenced("x = 1  # samedevice: ignore[one]\ny = 2\n", problem("one", 2)) == 0


def test_a_file_level_comment_silences_the_whole_file():
    text = "import torch\n# samedevice: ignore-file[one]\n" + "x = 1\n" * 5

    assert silenced(text, problem("one", 1), problem("one", 7), problem("two", 3)) == 2


def test_a_comment_in_another_cell_silences_nothing():
    comments = find_suppressions("x = 1  # samedevice: ignore[one]\n", cell=2)

    assert silence([problem("one", 1, cell=3), problem("one", 1, cell=2)], comments)[1] == 1


@pytest.mark.parametrize(
    "text",
    [
        "x = '# samedevice: ignore[one]'\n",
        '"""\n# samedevice: ignore[one]\n"""\n',
        "x = 1  # samedevice: see the manual\n",
        "x = 1  # the samedevice: ignore comment\n",
    ],
)
def test_text_that_is_no_suppression_is_left_alone(text):
    assert not find_suppressions(text)


def test_comments_share_a_line_with_those_of_other_tools():
    text = "x = 1  # noqa: E501  # samedevice: ignore[one] why  # type: ignore\n"

    assert silenced(text, problem("one", 1)) == 1


def test_a_used_suppression_is_not_reported():
    assert unused("x = 1  # samedevice: ignore[one]\n", problem("one", 1)) == []


def test_an_unused_suppression_is_reported_where_it_stands():
    [found] = unused("xyz = 1  # samedevice: ignore[one] why\n")

    assert found.message == "the suppression silences nothing: `one` is not found here"
    assert found.location == Location("a.py", 1, 10, 1, 39)


def test_a_rule_that_was_not_looked_for_is_not_judged():
    assert unused("x = 1  # samedevice: ignore[one]\n", judged=("two",)) == []


def test_a_bare_comment_is_judged_only_when_everything_was_looked_for():
    text = "x = 1  # samedevice: ignore\n"

    assert len(unused(text)) == 1
    assert unused(text, all_judged=False) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = 1  # samedevice: ignore[one] why\n", "x = 1\n"),
        ("x = 1  # samedevice: ignore[one]", "x = 1"),
        ("a = 0\n    # samedevice: ignore[one]\nx = 1\n", "a = 0\nx = 1\n"),
        ("a = 0\n# samedevice: ignore[one]", "a = 0\n"),
        ("x = 1  # noqa  # samedevice: ignore[one] why\n", "x = 1  # noqa\n"),
        ("x = 1  # samedevice: ignore[one] why  # noqa\n", "x = 1  # noqa\n"),
        ("# samedevice: ignore-file[one]\r\nx = 1\r\n", "x = 1\r\n"),
        ("é = 'ü'  # samedevice: ignore\n", "é = 'ü'\n"),
    ],
)
def test_the_fix_leaves_no_trace_of_the_comment(before, after):
    assert fixed(before) == after


def test_the_fix_keeps_the_names_that_are_used():
    text = "x = 1  # samedevice: ignore[one, two,three] why\n"

    assert fixed(text, problem("two", 1)) == "x = 1  # samedevice: ignore[two] why\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1  # samedevice: ignore[onne]\n", "there is no rule `onne`"),
        ("x = 1  # samedevice: ignore[]\n", "the list of rules is empty"),
        ("x = 1  # samedevice: ignore[one\n", "the list of rules lacks its `]`"),
        ("x = 1  # samedevice: ignroe[one]\n", "`ignroe` is written `ignore`"),
        ("x = 1  # samedevice: ignores[one]\n", "`ignores` is written `ignore`"),
        ("x = 1  # samedevice: ignore_file[one]\n", "`ignore_file` is written `ignore-file`"),
        ("x = 1  # samedevice: noqa[one]\n", "`noqa` is written `ignore`"),
    ],
)
def test_what_is_written_wrong_is_reported_and_not_removed(text, message):
    found = unused(text)

    assert [one.message for one in found] == [f"the suppression silences nothing: {message}"]
    assert all(one.fix is None for one in found)


@pytest.mark.parametrize(
    "text",
    [
        "x = (  # samedevice: ignore[one]\n",
        "x = '''  # samedevice: ignore\n",
        "\tx\n  y # samedevice: ignore",
    ],
)
def test_broken_code_is_no_reason_to_fail(text):
    find_suppressions(text)
