"""Edits change what they say and nothing else, in any encoding, and are written whole or not at all."""

import ast
import io
import tokenize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samedevice.model.fix import Applicability, Edit, Fix, Point
from samedevice.source.lines import LineIndex
from samedevice.source.rewriting import (
    EditError,
    apply_edits,
    choose,
    edit_bytes,
    rewrite,
    unified_diff,
)


def edit(line: int, column: int, end_line: int, end_column: int, new: str, path: str = "a.py") -> Edit:
    return Edit(path, Point(line, column), Point(end_line, end_column), new)


def fix(*edits: Edit) -> Fix:
    return Fix("Do it", Applicability.SAFE, edits)


# One file


def test_an_edit_replaces_exactly_its_range():
    assert (
        apply_edits("x = torch.zeros(3)  # keep\n", [edit(1, 17, 1, 18, "4")])
        == "x = torch.zeros(4)  # keep\n"
    )


def test_columns_count_characters_not_bytes():
    assert apply_edits("größe = '🎉', a\n", [edit(1, 14, 1, 15, "b")]) == "größe = '🎉', b\n"


def test_overlapping_edits_of_one_fix_are_refused():
    with pytest.raises(EditError, match="overlap"):
        apply_edits("abcdef\n", [edit(1, 1, 1, 4, "x"), edit(1, 3, 1, 5, "y")])


def test_an_edit_outside_of_the_text_is_refused():
    with pytest.raises(EditError, match="no line 7"):
        apply_edits("a\n", [edit(7, 1, 7, 1, "x")])


@pytest.mark.parametrize(
    "data",
    [
        "# coding: latin-1\nx = 'é'  # ü\ny = f(1)\n".encode("latin-1"),
        "\ufeffx = 'é'  # ü\n\ny = f(1)\n".encode(),
        "# ü\r\nx = 1\r\ny = f(1)\r\n".encode(),
        b"# no line end at the end\nx = 1\ny = f(1)",
        b"\x0c\n\tx = 1 if True else 2\ny = f(1)\n".replace(b"\t", b""),
    ],
    ids=["latin-1", "mark", "crlf", "no end", "form feed"],
)
def test_encoding_mark_and_line_ends_survive(data):
    new = edit_bytes("a.py", data, [edit(3, 7, 3, 8, "2")])

    assert new == data.replace(b"f(1)", b"f(2)")


def test_new_lines_get_the_line_end_of_the_file():
    assert (
        edit_bytes("a.py", b"x = 1\r\ny = 2\r\n", [edit(2, 1, 2, 1, "z = 0\n")])
        == b"x = 1\r\nz = 0\r\ny = 2\r\n"
    )


def test_a_result_that_does_not_parse_is_refused():
    with pytest.raises(EditError, match="would not parse"):
        edit_bytes("a.py", b"x = f(1)\n", [edit(1, 8, 1, 9, "")])


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_an_edit_that_would_lose_a_comment_is_refused(end):
    data = 'x = f(  # why "é🙂"\n    1,\n)  # end\ny = 2\n'.replace("\n", end).encode()
    with pytest.raises(EditError, match="a comment would be lost"):
        edit_bytes("a.py", data, [edit(1, 5, 3, 2, "g(1)")])
    edit_bytes("a.py", data, [edit(1, 5, 3, 2, 'g(  # why "é🙂"\n1)')])
    edit_bytes("a.py", data, [edit(3, 4, 3, 9, "")])
    edit_bytes("a.py", data, [edit(3, 2, 3, 9, "")])
    # Lines that go elsewhere take theirs along.
    edit_bytes("a.py", data, [edit(1, 1, 4, 1, ""), edit(5, 1, 5, 1, data.decode())])


def test_a_number_sign_in_a_string_is_no_comment():
    assert edit_bytes("a.py", b"x = '#' + y\n", [edit(1, 5, 1, 12, "y")]) == b"x = y\n"


def test_a_keyword_given_twice_is_refused_although_the_parser_takes_it():
    with pytest.raises(EditError, match="keyword argument repeated"):
        edit_bytes("a.py", b"x = f(a=1)\n", [edit(1, 10, 1, 10, ", a=2")])


def test_a_file_that_never_compiled_can_still_be_edited():
    assert edit_bytes("a.py", b"return f(1)\n", [edit(1, 10, 1, 11, "2")]) == b"return f(2)\n"


def test_a_character_that_the_encoding_lacks_is_refused():
    with pytest.raises(EditError, match="lacks a character"):
        edit_bytes("a.py", b"# coding: latin-1\nx = 1\n", [edit(2, 5, 2, 6, "'\u20ac'")])


def test_an_encoding_that_does_not_give_its_bytes_back_is_refused():
    data = b"# coding: utf-7\nx = '+AGE-'\n"

    with pytest.raises(EditError, match="cannot be written back in utf-7"):
        edit_bytes("a.py", data, [edit(2, 1, 2, 2, "y")])


# Many fixes


def test_of_two_overlapping_fixes_the_first_is_made_and_the_second_waits():
    first, second = fix(edit(1, 1, 1, 4, "x")), fix(edit(1, 3, 1, 6, "y"))

    assert choose([first, second]) == ([first], [second])


def test_a_fix_waits_as_a_whole_when_one_of_its_edits_conflicts():
    first = fix(edit(1, 1, 1, 4, "x"))
    second = fix(edit(1, 3, 1, 6, "y"), edit(9, 1, 9, 2, "z"))

    assert choose([first, second]) == ([first], [second])


def test_two_insertions_at_one_place_are_made_one_after_the_other():
    first, second = fix(edit(1, 3, 1, 3, "x")), fix(edit(1, 3, 1, 3, "y"))

    assert choose([first, second]) == ([first], [second])


def test_the_same_edit_asked_for_by_two_fixes_is_made_once():
    shared = edit(1, 1, 1, 1, "import torch\n")
    data = b"f(1)\ng(2)\n"
    done = rewrite(
        [fix(shared, edit(1, 3, 1, 4, "3")), fix(shared, edit(2, 3, 2, 4, "4"))], lambda path: data
    )

    assert done.contents == {"a.py": b"import torch\nf(3)\ng(4)\n"}


def test_edits_in_different_files_and_cells_never_conflict():
    first, second = fix(edit(1, 1, 1, 4, "x")), fix(edit(1, 1, 1, 4, "x", "b.py"))

    assert choose([first, second]) == ([first, second], [])


def test_a_fix_that_breaks_the_file_does_not_take_the_others_with_it():
    good, bad = fix(edit(1, 5, 1, 6, "2")), fix(edit(2, 5, 2, 6, "("))
    done = rewrite([bad, good], lambda path: b"x = 1\ny = 1\n")

    assert done.contents == {"a.py": b"x = 2\ny = 1\n"}
    assert done.made == [good]
    assert [one for one, _ in done.refused] == [bad]


def test_fixes_that_are_right_alone_and_wrong_together_are_made_in_turn():
    # Each turns one of two names into `*`: two starred targets are no Python.
    first, second = fix(edit(1, 1, 1, 2, "*a")), fix(edit(1, 4, 1, 5, "*b"))
    done = rewrite([first, second], lambda path: b"a, b = c\n")

    assert (done.made, done.waiting) == ([first], [second])
    assert done.contents == {"a.py": b"*a, b = c\n"}


def test_a_fix_over_two_files_is_made_in_both_or_in_neither():
    files = {"a.py": b"x = 1\n", "b.py": b"y = 1\n"}
    half = fix(edit(1, 5, 1, 6, "2"), edit(1, 5, 1, 6, "(", "b.py"))

    assert rewrite([half], files.__getitem__).contents == {}


def test_a_file_that_is_gone_refuses_its_fix_only():
    def read(path: str) -> bytes:
        if path == "gone.py":
            raise FileNotFoundError(2, "No such file", path)
        return b"x = 1\n"

    done = rewrite([fix(edit(1, 1, 1, 2, "y", "gone.py")), fix(edit(1, 1, 1, 2, "y"))], read)

    assert done.contents == {"a.py": b"y = 1\n"}
    assert len(done.refused) == 1


# Properties

NAMES = st.sampled_from(["x", "größe", "变量", "y1"])
COMMENTS = st.sampled_from(["", "  # note", "  # 🎉 samedevice", "\t# ü"])
LINES = st.lists(st.tuples(NAMES, COMMENTS), min_size=1, max_size=8)
ENDS = st.sampled_from(["\n", "\r\n"])


def comments_of(text: str) -> list[str]:
    return [
        t.string for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type == tokenize.COMMENT
    ]


@given(LINES, ENDS, st.data())
def test_edits_keep_every_comment_and_every_other_byte(lines, end, data):
    text = "".join(f"{name} = f(1){comment}{end}" for name, comment in lines)
    chosen = data.draw(st.sets(st.integers(0, len(lines) - 1)))
    edits = [edit(i + 1, len(lines[i][0]) + 6, i + 1, len(lines[i][0]) + 7, "2") for i in chosen]
    new = edit_bytes("a.py", text.encode(), edits).decode()

    assert comments_of(new) == comments_of(text)
    assert new == "".join(
        f"{name} = f({2 if i in chosen else 1}){comment}{end}" for i, (name, comment) in enumerate(lines)
    )


@given(st.text(alphabet="ab\n\r\x0cé🎉", max_size=30), st.data())
def test_an_edit_undone_gives_the_text_back(text, data):
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    new = data.draw(st.text(alphabet="xy\n", max_size=5))
    index = LineIndex(text)
    there = Edit("a.py", index.point(start), index.point(end), new)
    changed = apply_edits(text, [there])
    after = LineIndex(changed)
    back = Edit("a.py", after.point(start), after.point(start + len(new)), text[start:end])

    assert changed == text[:start] + new + text[end:]
    assert apply_edits(changed, [back]) == text


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 4), st.sampled_from(["", "p", "qq"])), max_size=6)
)
def test_chosen_fixes_never_touch_and_none_is_lost(wanted):
    text = "0123456789abcdefg"
    fixes = [fix(edit(1, at + 1, 1, at + size + 1, new)) for at, size, new in wanted]
    made, waiting = choose(fixes)

    assert len(made) + len(waiting) == len(fixes)
    apply_edits(text, [one for each in made for one in each.edits])


def test_a_diff_names_the_file_and_survives_a_missing_line_end():
    text = unified_diff("a.py", b"x = 1\ny = 2", b"x = 1\ny = 3")

    assert text == (
        "--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n x = 1\n-y = 2\n\\ No newline at end of file\n"
        "+y = 3\n\\ No newline at end of file\n"
    )


def test_the_parser_is_asked_about_every_result():
    assert ast.parse(edit_bytes("a.py", b"f(1)\n", [edit(1, 3, 1, 4, "2")]))
