"""Fixes are made until nothing changes; what breaks the file or does no good is taken back."""

import stat


def test_safe_fixes_are_made_and_unsafe_ones_only_when_asked_for(project, analysed, lint):
    root = project(a='bad("one", "safe")  # keep\nbad("two", "unsafe")\nbad("three", "display")\n')
    status, out, _ = lint("--fix", "--format", "concise")

    assert (root / "a.py").read_text(encoding="utf-8") == (
        'good()  # keep\nbad("two", "unsafe")\nbad("three", "display")\n'
    )
    assert status == 1

    status, out, _ = lint("--fix", "--unsafe-fixes")
    assert (root / "a.py").read_text(encoding="utf-8") == 'good()  # keep\ngood()\nbad("three", "display")\n'
    assert status == 1
    assert "fixed 1 problem in 1 file" in out


def test_when_everything_is_fixed_the_status_is_zero(project, analysed, lint):
    project(a='bad("one", "safe")\n')
    status, out, _ = lint("--fix")

    assert status == 0
    assert "note: fixed 1 problem in 1 file" in out


def test_a_fix_may_uncover_the_next_problem(project, analysed, lint):
    root = project(a='bad("one", "twice")\n')

    assert lint("--fix")[0] == 0
    assert (root / "a.py").read_text(encoding="utf-8") == "good()\n"


def test_a_fix_that_breaks_the_file_is_not_made_and_says_so(project, analysed, lint):
    root = project(a='bad("one", "breaks")\nbad("two", "safe")\n')
    status, out, _ = lint("--fix")

    assert (root / "a.py").read_text(encoding="utf-8") == 'bad("one", "breaks")\ngood()\n'
    assert status == 1
    assert "the fix of one was not made: the result would not parse" in " ".join(out.split())


def test_a_fix_that_does_no_good_is_taken_back(project, analysed, lint):
    text = 'bad("one", "useless")\nbad("two", "safe")\n'
    root = project(a=text)
    _, out, _ = lint("--fix")

    assert (root / "a.py").read_text(encoding="utf-8") == 'bad("one", "useless")\ngood()\n'
    assert "the fix of one was not made: the problem would still be there" in " ".join(out.split())


def test_a_diff_changes_nothing_and_shows_everything(project, analysed, lint):
    root = project(a='x = 1\nbad("one", "safe")\n', b='bad("two", "unsafe")\n')
    status, out, err = lint("--diff")

    assert out == '--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n x = 1\n-bad("one", "safe")\n+good()\n'
    assert "would fix 1 problem in 1 file" in err
    assert "--unsafe-fixes would fix 1 more problem" in err
    assert status == 1
    assert "bad" in (root / "a.py").read_text(encoding="utf-8")


def test_a_diff_of_nothing_is_empty(project, analysed, lint):
    project(a="x = 1\n")

    assert lint("--diff")[:2] == (0, "")


def test_unsafe_fixes_alone_say_what_they_go_with(project, lint):
    assert lint("--unsafe-fixes") == (
        2,
        "",
        "samedevice: `--unsafe-fixes` goes with `--fix` (make them) or `--diff` (show them)\n",
    )


def test_bytes_around_a_fix_survive(project, analysed, lint):
    before = "# coding: latin-1\r\n# gr\xfc\xdfe\r\n\tx = [ 1,2 ]\r\n".replace("\t", "").encode("latin-1")
    root = project(a=before + b'bad("one", "safe")  # \xe9')
    (root / "a.py").chmod(0o750)
    lint("--fix")

    assert (root / "a.py").read_bytes() == before + b"good()  # \xe9"
    assert stat.S_IMODE((root / "a.py").stat().st_mode) == 0o750


def test_a_file_that_was_not_given_is_not_edited(project, analysed, lint):
    root = project(a="from b import *\n", b='bad("seen-x", "safe")\n')
    status, out, _ = lint("--fix", "a.py", "--format", "concise")

    assert status == 1
    assert "b.py:1:1" in out
    assert "bad" in (root / "b.py").read_text(encoding="utf-8")


def test_a_fix_in_an_imported_file_that_was_given_is_made(project, analysed, lint):
    root = project(a="from b import *\n", b='bad("seen-x", "safe")\n')

    assert lint("--fix")[0] == 0
    assert (root / "b.py").read_text(encoding="utf-8") == "good()\n"


def test_a_file_that_may_not_be_written_is_named(project, analysed, lint, monkeypatch):
    def refuse(*args: object) -> None:
        raise PermissionError(13, "Permission denied")

    project(a='bad("one", "safe")\n')
    monkeypatch.setattr("os.replace", refuse)
    status, _, err = lint("--fix", "--no-cache")

    assert status == 2
    assert "cannot write `a.py`: Permission denied" in err


def test_unused_suppressions_are_removed(project, analysed, lint):
    root = project(a="x = 1  # samedevice: ignore\ny = 2  # kept\n")

    assert lint("--fix")[0] == 0
    assert (root / "a.py").read_text(encoding="utf-8") == "x = 1\ny = 2  # kept\n"


def test_a_cell_of_a_notebook_is_fixed_and_the_rest_stays(project, analysed, lint):
    data = (
        b'{"cells": [{"cell_type": "code", "source": ["%matplotlib inline\\n", "x = 1"]},\n'
        b'  {"cell_type":"code","source":["y = 2\\n",   "bad(\\"one\\", \\"safe\\")"], "outputs": []}],\n'
        b' "metadata": {"a": "\\u00e9"}, "nbformat": 4}'
    )
    root = project.all({"n.ipynb": data})
    assert "n.ipynb:cell 2:2:1: error[one]" in lint("--format", "concise")[1]

    assert lint("--fix")[0] == 0
    assert (root / "n.ipynb").read_bytes() == data.replace(b'bad(\\"one\\", \\"safe\\")', b"good()")


def test_the_report_beside_a_diff_shows_the_lines_as_they_would_be(project, analysed, lint):
    project(a='bad("one", "safe")\nx = 1\nbad("two")\n')
    _, _, err = lint("--diff")

    assert '3 | bad("two")' in err
