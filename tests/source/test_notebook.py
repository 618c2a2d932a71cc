"""Notebooks are read cell by cell with magics tolerated, and edited without touching any other byte."""

import ast
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samedevice.model.diagnostic import Confidence, Diagnostic, Evidence, Location, Severity
from samedevice.model.fix import Applicability, Edit, Fix, Point
from samedevice.source.magics import harmless
from samedevice.source.notebook import NotebookError, read_notebook
from samedevice.source.notebook_edits import edit_notebook
from samedevice.source.rewriting import EditError


def code(*lines: str) -> dict:
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
        "source": list(lines),
    }


def notebook(*cells: dict, indent: int | None = 1, language: str = "python", **dumps) -> bytes:
    content = {
        "cells": list(cells),
        "metadata": {"language_info": {"name": language}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return (json.dumps(content, indent=indent, **dumps) + "\n").encode()


def edit(cell: int | None, line: int, column: int, end_line: int, end_column: int, new: str) -> Edit:
    return Edit("a.ipynb", Point(line, column), Point(end_line, end_column), new, cell)


def sources(data: bytes) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(data)["cells"]]


# Reading


def test_cells_are_one_text_in_order_and_lines_lead_back_to_them():
    markdown = {"cell_type": "markdown", "metadata": {}, "source": ["# Title\n", "x = 1"]}
    found = read_notebook(notebook(code("a = 1\n", "b = 2"), markdown, code("c = 3")))

    assert found.text == "a = 1\nb = 2\nc = 3\n"
    assert [found.place(line) for line in (1, 2, 3)] == [(1, 1), (1, 2), (3, 1)]


def test_a_source_may_be_one_string():
    assert read_notebook(notebook({**code(), "source": "a = 1\nb = 2"})).text == "a = 1\nb = 2\n"


def test_empty_cells_count():
    found = read_notebook(notebook(code(), code("a = 1")))

    assert found.place(1) == (2, 1)


def test_notebooks_of_other_languages_are_passed_over():
    assert read_notebook(notebook(code("x <- 1"), language="R")) is None


@pytest.mark.parametrize(
    ("data", "message", "line"),
    [
        (b'{"cells": [\n  }\n', "the notebook is not valid JSON", 2),
        (b"[1, 2]", "the file is not a Jupyter notebook", 1),
        (b'{"worksheets": []}', "it has the format of before 2015", 1),
        (b'{"a": "\xff"}', "the notebook is not UTF-8", 1),
        (b"", "the notebook is not valid JSON", 1),
        (b"[" * 100_000, "nested too deeply", 1),
    ],
)
def test_what_is_no_notebook_is_said_in_plain_words(data, message, line):
    with pytest.raises(NotebookError) as caught:
        read_notebook(data)

    assert message in caught.value.message
    assert caught.value.line == line


@pytest.mark.parametrize(
    "cells", [[None, 3, {"cell_type": "code"}, {"cell_type": "code", "source": [1, "a"]}]]
)
def test_odd_cells_are_no_reason_to_fail(cells):
    assert read_notebook(notebook(*cells)).text == "a\n"


# Magics


@pytest.mark.parametrize(
    ("source", "python"),
    [
        ("%matplotlib inline\nx = 1", "pass\nx = 1"),
        ("!pip install torch\nx = 1", "pass\nx = 1"),
        ("if gpu:\n    !nvidia-smi\nx = 1", "if gpu:\n    pass\nx = 1"),
        ("!pip install \\\n    torch\nx = 1", "pass\n\nx = 1"),
        ("x = !ls\ny = 1", "x = get_ipython()\ny = 1"),
        ("x = %env HOME\ny = 1", "x = get_ipython()\ny = 1"),
        ("torch.zeros?\nx = 1", "pass\nx = 1"),
        ("?torch.zeros\nx = 1", "pass\nx = 1"),
        ("%time x = f(1)\ny = 1", "0;    x = f(1)\ny = 1"),
        ("%%time\nx = 1", "pass\nx = 1"),
        ("%%bash\nls -la\ncd ..", "\n\n"),
        ("%%writefile a.py\nimport torch\n", "\n\n"),
        ("pip install torch\nx = 1", "pass\nx = 1"),
        ("x = 5 % 3\nassert x != 1", "x = 5 % 3\nassert x != 1"),
        ('x = """\n%matplotlib inline\n"""\n%cd ..', 'x = """\n%matplotlib inline\n"""\npass'),
        ("x = (5\n     % 3)", "x = (5\n     % 3)"),
    ],
)
def test_magics_become_harmless_where_they_stand(source, python):
    assert harmless(source) == (python, None)
    ast.parse(python)


def test_a_timed_statement_keeps_its_columns():
    text, _ = harmless("%timeit x = f(1)\n!ls")
    call = ast.parse(text).body[1]

    assert call.col_offset == len("%timeit ")


def test_a_cell_that_is_no_python_is_left_out_and_reported():
    found = read_notebook(notebook(code("a = 1"), code("def f(:\n", "  pass\n"), code("b = 2")))

    assert found.text == "a = 1\n" + "\n" * 2 + "b = 2\n"
    assert [(cell.number, error.lineno) for cell, error in found.broken] == [(2, 1)]


def test_top_level_await_is_python_here():
    assert harmless("await f()")[1] is None


@given(st.text(alphabet=st.sampled_from("%!?\\\n\r'\"# abx=(.:\t"), max_size=30))
def test_any_cell_gives_python_of_the_same_number_of_lines(source):
    text, error = harmless(source)

    assert text.count("\n") == source.count("\n")
    if error is None:
        ast.parse(text)


# Positions


def test_every_place_of_a_diagnostic_is_given_as_cell_and_line():
    found = read_notebook(notebook(code("a = 1\n", "b = 2"), code("c = 3\n", "d = 4")))
    where = Location("a.ipynb", 4, 1, 4, 6)
    there = Diagnostic(
        "one",
        Severity.ERROR,
        Confidence.CERTAIN,
        "m",
        where,
        evidence=(Evidence(Location("a.ipynb", 2), "here"), Evidence(Location("b.py", 2), "there")),
        fix=Fix("Do it", Applicability.SAFE, (Edit("a.ipynb", Point(3, 5), Point(4, 2), "x"),)),
    )
    mapped = found.in_cells(there, "a.ipynb")

    assert mapped.location == Location("a.ipynb", 2, 1, 2, 6, cell=2)
    assert [one.location for one in mapped.evidence] == [Location("a.ipynb", 2, cell=1), Location("b.py", 2)]
    assert mapped.fix.edits == (Edit("a.ipynb", Point(1, 5), Point(2, 2), "x", cell=2),)


# Writing back

LAYOUTS = {
    "as Jupyter writes it": {"indent": 1},
    "two spaces": {"indent": 2},
    "one line": {"indent": None},
    "no spaces": {"indent": None, "separators": (",", ":")},
    "raw characters": {"indent": 1, "ensure_ascii": False},
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_an_edit_in_a_line_changes_only_that_line(layout):
    data = notebook(code("é = 1  # ü 🎉\n", "y = f(é, '🎉')"), code("z = 1"), **layout)
    new = edit_notebook(data, [edit(1, 2, 8, 2, 8, ", 1")])

    assert sources(new) == ["é = 1  # ü 🎉\ny = f(é, 1, '🎉')", "z = 1"]
    assert len(new) == len(data) + 3


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_new_lines_are_laid_out_like_the_others(layout):
    data = notebook(code("a = 1\n", "b = 2\n", "c = 3"), **layout)
    new = edit_notebook(data, [edit(1, 2, 1, 2, 1, "x = 0\n"), edit(1, 3, 6, 3, 6, "\ny = 0")])

    assert new == notebook(code("a = 1\n", "x = 0\n", "b = 2\n", "c = 3\n", "y = 0"), **layout)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_lines_removed_leave_the_layout_as_it_was(layout):
    data = notebook(code("a = 1\n", "b = 2\n", "c = 3"), **layout)

    assert edit_notebook(data, [edit(1, 2, 1, 3, 1, "")]) == notebook(code("a = 1\n", "c = 3"), **layout)


def test_a_list_of_one_line_grows_as_the_list_is_laid_out():
    assert edit_notebook(notebook(code("a = 1")), [edit(1, 1, 1, 1, 1, "b = 2\n")]) == notebook(
        code("b = 2\n", "a = 1")
    )


def test_a_source_that_is_one_string_stays_one():
    data = notebook({**code(), "source": 'a = "x"\nb = 2'})
    new = edit_notebook(data, [edit(1, 2, 1, 2, 1, 'c = "\\\\"\n')])

    assert sources(new) == ['a = "x"\nc = "\\\\"\nb = 2']
    assert json.loads(new)["cells"][0]["source"] == 'a = "x"\nc = "\\\\"\nb = 2'


def test_escapes_that_somebody_wrote_by_hand_stay():
    data = notebook(code("a = 1")).replace(b'"a = 1"', rb'"\u0061 = 1 \/\/ 2"')

    assert b'"\\u0061 = 3 \\/\\/ 2"' in edit_notebook(data, [edit(1, 1, 5, 1, 6, "3")])


def test_mark_line_ends_and_a_missing_last_line_end_stay():
    data = b"\xef\xbb\xbf" + notebook(code("a = 1\n", "b = 2")).replace(b"\n", b"\r\n").removesuffix(b"\r\n")
    new = edit_notebook(data, [edit(1, 2, 5, 2, 6, "3")])

    assert new == data.replace(b"b = 2", b"b = 3")


def test_outputs_and_metadata_that_look_like_cells_are_left_alone():
    decoy = {
        **code("a = 1"),
        "metadata": {"source": ["no"], "cells": [{"source": "no"}]},
        "outputs": [{"source": ["no"]}],
    }
    data = notebook(decoy)

    assert edit_notebook(data, [edit(1, 1, 5, 1, 6, "2")]) == data.replace(b"a = 1", b"a = 2")


def test_a_cell_that_would_not_parse_any_more_refuses_the_edit():
    with pytest.raises(EditError, match="would not parse"):
        edit_notebook(notebook(code("!ls\n", "a = 1")), [edit(1, 2, 5, 2, 6, "(")])


@pytest.mark.parametrize("cell", [None, 0, 7])
def test_a_cell_that_is_not_there_refuses_the_edit(cell):
    with pytest.raises(EditError, match="has no cell"):
        edit_notebook(notebook(code("a = 1")), [edit(cell, 1, 1, 1, 1, "x")])


LINE = st.text(alphabet="ab=é🎉 \"\\'", max_size=6).map(lambda text: f"# {text}")


@given(
    st.lists(LINE, min_size=1, max_size=4),
    st.sampled_from(list(LAYOUTS.values())),
    st.booleans(),
    st.data(),
)
def test_an_edited_cell_holds_what_the_edit_says_and_all_else_is_the_same(lines, layout, as_list, data):
    text = "\n".join(lines)
    cell = code(*text.splitlines(keepends=True)) if as_list else {**code(), "source": text}
    before = notebook(code("first = 1"), cell, code("last = 1"), **layout)
    line = data.draw(st.integers(1, len(lines)))
    column = data.draw(st.integers(3, len(lines[line - 1]) + 1))
    new = data.draw(st.text(alphabet='x"\\é', max_size=3)) + data.draw(st.sampled_from(["", "\n# y"]))
    after = edit_notebook(before, [edit(2, line, column, line, column, new)])
    changed = lines[line - 1][: column - 1] + new + lines[line - 1][column - 1 :]

    assert sources(after) == [
        "first = 1",
        "\n".join([*lines[: line - 1], changed, *lines[line:]]),
        "last = 1",
    ]
    expected = json.loads(before)
    expected["cells"][1]["source"] = json.loads(after)["cells"][1]["source"]
    assert json.loads(after) == expected
