"""Lines are counted as Python's parser counts them."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samedevice.model.fix import Point
from samedevice.source.lines import LineIndex, lines_of, split_lines

TEXTS = st.text(alphabet=st.sampled_from("ab\n\r\f\x0b\x1c\u2028é"), max_size=40)


def test_form_feeds_and_unicode_separators_end_no_line():
    assert split_lines("a\x0cb\u2028c\nd") == ["a\x0cb\u2028c\n", "d"]


@given(TEXTS)
def test_lines_without_their_ends_are_as_many(text):
    assert lines_of(text) == [line.rstrip("\r\n") for line in split_lines(text)]


@given(TEXTS)
def test_lines_joined_are_the_text(text):
    assert "".join(split_lines(text)) == text


@given(TEXTS)
def test_every_offset_has_a_point_that_leads_back(text):
    index = LineIndex(text)

    assert [index.offset(index.point(at)) for at in range(len(text) + 1)] == list(range(len(text) + 1))


@pytest.mark.parametrize("point", [Point(0, 1), Point(3, 1), Point(1, 0), Point(1, 5), Point(2, 9)])
def test_places_outside_the_text_are_refused(point):
    with pytest.raises(ValueError, match=r"no (line|column)"):
        LineIndex("ab\ncd").offset(point)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_the_parser_agrees_on_lines(end):
    text = end.join(["x = 1", "y = '''a", "b'''", "z = 2", ""])
    index = LineIndex(text)
    last = ast.parse(text).body[-1]

    assert text[index.offset(Point(last.lineno, last.col_offset + 1)) :] == f"z = 2{end}"
