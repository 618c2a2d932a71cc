"""Which rules are looked for: a name weighs more than a category, what is ignored more than what is selected."""

import pytest

from samedevice.lint.selection import Selection, checked_names, rule_names, stranger
from samedevice.model.errors import UserError
from samedevice.rules import all_rules


def test_the_names_are_those_of_the_registry():
    assert rule_names() == all_rules().keys()


def test_by_default_what_raises_is_looked_for_and_previews_are_not():
    selection = Selection()
    expected = {
        name: rule.category == "correctness" and not rule.preview for name, rule in all_rules().items()
    }

    assert {name: selection(name) for name in all_rules()} == expected


@pytest.mark.parametrize(
    ("select", "ignore", "found"),
    [
        (("unused-suppression",), (), True),
        (("syntax-error",), (), False),
        (("correctness",), (), True),
        (("performance",), (), False),
        (("all",), (), True),
        ((), ("unused-suppression",), False),
        ((), ("correctness",), False),
        ((), ("all",), False),
        (("unused-suppression",), ("correctness",), True),
        (("unused-suppression",), ("all",), True),
        (("unused-suppression",), ("unused-suppression",), False),
    ],
)
def test_select_and_ignore_together(select, ignore, found):
    assert Selection(select, ignore)("unused-suppression") is found


def test_a_wrong_name_is_told_where_it_stands_and_what_was_meant():
    with pytest.raises(UserError) as caught:
        checked_names(["all", "unused-supression"], "--select")

    assert str(caught.value) == (
        "--select: there is no rule or category `unused-supression`; did you mean `unused-suppression`?"
    )


def test_a_name_like_nothing_points_at_the_list():
    with pytest.raises(UserError, match="`samedevice rule` lists the rules"):
        checked_names(["qqqq"], "--select")


def test_strangers_are_told_from_rules():
    assert stranger("syntax-error") is None
    assert stranger("sintax-error") == "there is no rule `sintax-error`, did you mean `syntax-error`?"
