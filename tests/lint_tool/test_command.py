"""`samedevice lint` as people call it: what it reads, what it reports, how it ends."""

import io
import json
import shlex
import subprocess
import sys

import pytest

from samedevice.cli.lint_progress import Bar


def piped(monkeypatch, data: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


def rules_of(out: str) -> list[str]:
    return [one["rule"] for one in json.loads(out)["diagnostics"]]


# What it reads, how it ends


def test_nothing_found_is_status_zero(project, analysed, lint):
    project(a="x = 1\n")
    status, out, err = lint()

    assert (status, err) == (0, "")
    assert out.startswith("all clear: no device mistakes in 1 file")


def test_problems_are_status_one(project, analysed, lint):
    project(a='bad("one")\n', b="x = 1\n")

    status, out, _ = lint("--format", "concise")

    assert status == 1
    assert out.startswith(
        "a.py:1:1: error[one] `bad` is bad\n  a.py:1:1: seen from here\n1 problem in 2 files"
    )


def test_a_folder_without_python_says_so(project, lint):
    project.all({"readme.md": ""})
    status, out, _ = lint()

    assert status == 0
    assert "note: no Python files found" in out


def test_what_does_not_exist_is_status_two(project, lint):
    project(a="x = 1\n")

    assert lint("none.py") == (2, "", "samedevice: none.py does not exist\n")


@pytest.mark.parametrize(
    ("data", "line", "message"),
    [
        (b"x = (\n", 1, "'(' was never closed"),
        (b"x = 1\ny = '\xff'\n", 2, "byte 0xff is not valid utf-8"),
        (b"\xff\xfex\x00", 1, "the file is UTF-16"),
        (b"# coding: nope\n", 1, "unknown encoding 'nope'"),
        (b"x = 1\x00\n", 1, "null bytes"),
        (b"(" * 5000, 1, ""),
        (b"x = " + b"-" * 50_000 + b"1\n", 1, ""),
        (b"x = " + b"+".join([b"1"] * 30_000) + b"\n", 1, ""),
    ],
)
def test_a_file_that_cannot_be_read_is_reported_and_the_others_are_linted(
    project, analysed, lint, data, line, message
):
    project(broken=data, good='bad("one")\n')
    status, out, err = lint("--format", "json")
    found = {one["location"]["path"]: one for one in json.loads(out)["diagnostics"]}

    assert (status, err) == (2, "")
    assert found["good.py"]["rule"] == "one"
    assert found["broken.py"]["rule"] == "syntax-error"
    assert found["broken.py"]["location"]["line"] == line
    assert message in found["broken.py"]["message"]


def test_a_syntax_error_cannot_be_ignored(project, analysed, lint):
    project(a="x = (\n")

    assert lint("--ignore", "all")[0] == 2


def test_a_broken_notebook_is_reported(project, analysed, lint):
    project.all({"a.ipynb": '{"cells": ['})
    status, out, _ = lint("--format", "concise")

    assert status == 2
    assert out.startswith("a.ipynb:1:")


def test_a_broken_cell_is_reported_and_the_others_are_linted(project, analysed, lint):
    cells = [{"cell_type": "code", "source": text} for text in ("x = (", 'bad("one")')]
    project.all({"a.ipynb": json.dumps({"cells": cells})})
    status, out, _ = lint("--format", "concise")

    assert status == 2
    assert "a.ipynb:cell 1:1:5: error[syntax-error]" in out
    assert "a.ipynb:cell 2:1:1: error[one]" in out


def test_our_own_failure_is_told_and_is_no_traceback(project, analysed, lint):
    project(a="crash()\n", b='bad("one")\n')
    status, out, err = lint()

    assert (status, err) == (2, "")
    assert (
        "a.py: samedevice failed here, which is a mistake in samedevice itself (RuntimeError: the"
        in " ".join(out.split())
    )
    assert "error[one]" in out


# Standard input


def test_standard_input_is_linted_under_its_name(project, analysed, lint, monkeypatch):
    project.all({"samedevice.toml": "ignore = ['unused-suppression']\n"})
    piped(monkeypatch, b'bad("one")\nbad("unused-suppression")\n')
    status, out, _ = lint("-", "--stdin-filename", "src/x.py", "--format", "json")
    [found] = json.loads(out)["diagnostics"]

    assert status == 1
    assert (found["rule"], found["location"]["path"]) == ("one", "src/x.py")


def test_standard_input_without_a_name_has_one(project, analysed, lint, monkeypatch):
    project()
    piped(monkeypatch, b'bad("one")\n')

    assert "--> <stdin>:1:1" in lint("-")[1]


def test_standard_input_sees_the_files_beside_it(project, analysed, lint, monkeypatch):
    project(b='bad("seen-x")\n')
    piped(monkeypatch, b"from b import *\n")

    assert "b.py:1:1" in lint("-", "--stdin-filename", "a.py", "--format", "concise")[1]


def test_fixed_standard_input_goes_to_standard_output(project, analysed, lint):
    root = project()
    done = subprocess.run(
        [sys.executable, "-m", "samedevice", "lint", "-", "--fix"],
        input="x = 'é'  # samedevice: ignore\r\n".encode(), capture_output=True, check=False, cwd=root,
    )  # fmt: skip

    assert done.stdout == "x = 'é'\r\n".encode()
    assert b"fixed 1 problem" in done.stderr
    assert done.returncode == 0


def test_standard_input_stands_alone(project, lint):
    project(a="x = 1\n")

    assert lint("-", "a.py")[2] == "samedevice: `-` (standard input) stands alone\n"
    assert "goes with `-`" in lint("a.py", "--stdin-filename", "b.py")[2]


def test_a_notebook_may_come_by_standard_input(project, analysed, lint, monkeypatch):
    project()
    piped(monkeypatch, json.dumps({"cells": [{"cell_type": "code", "source": 'bad("one")'}]}).encode())

    _, out, _ = lint("-", "--stdin-filename", "n.ipynb")

    assert "--> n.ipynb:cell 1:1:1" in out
    assert '1 | bad("one")' in out


# Settings and options


def test_settings_of_the_project_hold(project, analysed, lint):
    project.all(
        {
            "pyproject.toml": "[tool.samedevice]\nignore = ['unused-suppression']\nexclude = ['old']\n",
            "a.py": 'bad("one")\nbad("unused-suppression")\n',
            "old/b.py": 'bad("unused-suppression")\n',
        }
    )

    assert rules_of(lint("--format", "json")[1]) == ["one"]
    assert "1 problem in 1 file" in lint()[1]


def test_the_command_line_adds_to_the_settings_and_overrules_them(project, analysed, lint):
    project.all(
        {
            "samedevice.toml": "ignore = ['unused-suppression']\n",
            "a.py": 'bad("unused-suppression")\nbad("other")\n',
        }
    )

    assert rules_of(lint("--format", "json")[1]) == ["other"]
    assert rules_of(lint("--format", "json", "--select", "unused-suppression")[1]) == ["unused-suppression"]


def test_another_settings_file_may_be_named(project, analysed, lint):
    project.all(
        {
            "samedevice.toml": "exclude = ['a.py']\n",
            "other.toml": "",
            "a.py": 'bad("one")\n',
        }
    )

    assert lint()[0] == 0
    assert lint("--config", "other.toml")[0] == 1


def test_a_wrong_rule_in_the_settings_is_named_with_its_place(project, lint):
    project.all({"samedevice.toml": "[per-path-ignores]\n'x' = ['syntax-eror']\n", "a.py": ""})

    assert lint() == (
        2,
        "",
        'samedevice: samedevice.toml: `per-path-ignores."x"`: there is no rule or category `syntax-eror`; '
        "did you mean `syntax-error`?\n",
    )


def test_rules_are_ignored_where_the_settings_say(project, analysed, lint):
    project.all(
        {
            "samedevice.toml": "[per-path-ignores]\n'tests/*' = ['unused-suppression']\n",
            "tests/a.py": 'bad("unused-suppression")\nbad("one")\n',
            "b.py": 'bad("unused-suppression")\n',
        }
    )

    assert sorted(rules_of(lint("--format", "json")[1])) == ["one", "unused-suppression"]


def test_each_argument_has_the_settings_of_its_own_project(project, analysed, lint):
    project.all(
        {
            "one/samedevice.toml": "ignore = ['unused-suppression']\n",
            "one/a.py": 'bad("unused-suppression")\n',
            "two/a.py": 'bad("unused-suppression")\n',
        }
    )

    assert "two/a.py:1:1" in lint("one", "two", "--format", "concise")[1]
    assert "one/a.py:1:1" not in lint("one", "two", "--format", "concise")[1]


def test_paths_are_excluded_on_the_command_line(project, analysed, lint):
    project.all({"a.py": 'bad("one")\n', "old/b.py": 'bad("one")\n', "new/c.py": 'bad("one")\n'})

    assert "1 problem in 1 file" in lint("--exclude", "old,new")[1]


def test_a_problem_in_an_excluded_file_is_not_shown_though_another_imports_it(project, analysed, lint):
    project.all({"a.py": "from old.b import *\n", "old/b.py": 'bad("seen-x")\n'})

    assert lint("a.py")[0] == 1
    assert lint("a.py", "--exclude", "old")[0] == 0


def test_suppressions_are_counted_and_can_be_seen_through(project, analysed, lint):
    project(a='bad("one")  # samedevice: ignore\n')

    assert "(1 suppressed)" in lint()[1]
    assert lint()[0] == 0
    assert lint("--no-ignores")[0] == 1


def test_a_suppression_in_an_imported_file_holds(project, analysed, lint):
    project(a="from b import *\n", b='bad("seen-x")  # samedevice: ignore[seen-x]\n')

    assert lint("a.py")[0] == 0


def test_a_suppression_that_another_file_needs_is_not_called_unused(project, analysed, lint):
    project(a="from b import *\n", b='bad("seen-x")  # samedevice: ignore\n')

    assert lint("b.py")[0] == 0
    assert lint()[0] == 0
    project(a="x = 1\n")
    assert "silences nothing" in lint("b.py")[1]


@pytest.mark.parametrize("format", ["text", "concise", "json", "sarif", "github"])
def test_every_format_goes_to_a_file(project, analysed, lint, format):
    root = project(a='bad("syntax-error")\n')
    status, out, _ = lint("--format", format, "--output", "report")

    assert (status, out) == (1, "")
    assert "syntax-error" in (root / "report").read_text(encoding="utf-8")


def test_statistics_count_rules(project, analysed, lint):
    project(a='bad("one", "safe")\n' * 10 + 'bad("two")\n')
    status, out, _ = lint("--statistics")

    assert (status, out) == (1, "10  one  (10 with a fix)\n 1  two\n11 problems in 1 file\n")


def test_statistics_leave_a_machine_readable_report_alone(project, analysed, lint):
    project(a='bad("one")\n')
    _, out, err = lint("--statistics", "--format", "json")

    assert rules_of(out) == ["one"]
    assert err.startswith("1  one\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--select", "nonsense"), "--select: there is no rule or category `nonsense`"),
        (("--jobs", "0"), "`0` is not a whole number above 0"),
        (("--format", "xml"), "invalid choice: 'xml'"),
        (("--config", "none.toml"), "cannot read the settings in none.toml"),
        (("--nonsense",), "unrecognized arguments: --nonsense"),
    ],
)
def test_errors_of_use_are_status_two_and_one_sentence(project, lint, words, message):
    project(a="x = 1\n")
    status, out, err = lint(*words)

    assert (status, out) == (2, "")
    assert err.startswith("samedevice: ")
    assert message in err


# The whole process


def test_neither_torch_nor_anything_slow_is_imported(project):
    root = project(a="import torch\nx = torch.zeros(3)\n")
    script = """
import sys
from samedevice.cli import main
main(["lint", "a.py", "--format", "json", "--output", "report.json"])
heavy = ("torch", "rich", "jinja2", "numpy", "pathspec", "multiprocessing", "executing", "asyncio", "importlib.metadata")
print([name for name in heavy if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=False
    )

    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_reader_that_goes_away_is_no_error(project):
    root = project(a="x = (\n")
    done = subprocess.run(
        f"{shlex.quote(sys.executable)} -m samedevice lint | true",
        shell=True,
        cwd=root,
        capture_output=True,
        check=False,
    )

    assert done.stderr == b""


# The bar


def test_the_bar_appears_after_a_second_and_is_wiped_away():
    now = [0.0]
    stream = io.StringIO()
    bar = Bar(10, stream, clock=lambda: now[0])
    bar(1)
    assert stream.getvalue() == ""
    now[0] = 1.5
    bar(5)
    bar(None)

    assert stream.getvalue() == "\r\x1b[K[###############...............] 5/10 files\r\x1b[K"


def test_short_work_shows_no_bar():
    stream = io.StringIO()
    bar = Bar(10, stream, clock=lambda: 0.0)
    bar(10)
    bar(None)

    assert stream.getvalue() == ""
