"""The documentation is true: what it shows is run, what is generated is in step."""

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pages
import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
RUN = [path for path in sorted(DOCS.glob("*.md")) if "```console" in path.read_text(encoding="utf-8")]


@pytest.mark.torch
@pytest.mark.parametrize("path", RUN, ids=lambda path: path.stem)
def test_what_a_page_shows_is_what_its_commands_print(path, tmp_path, request):
    page = path.read_text(encoding="utf-8")
    actual = pages.play(page, tmp_path)
    assert "Traceback (most recent call last)" not in actual
    if request.config.getoption("--update-golden"):
        path.write_text(actual, encoding="utf-8")
        return

    assert pages.steady(actual) == pages.steady(page)


def test_the_quickstart_is_among_the_pages_that_are_run():
    assert "quickstart" in [path.stem for path in RUN]


def test_the_pages_of_the_rules_are_in_step_with_their_docstrings():
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "rule_docs.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_the_json_report_of_the_formats_page_follows_the_schema():
    page = (DOCS / "formats.md").read_text(encoding="utf-8")
    text = page.partition("```json\n")[2].partition("```")[0]
    schema = json.loads((DOCS / "schema" / "report-v1.schema.json").read_text())

    jsonschema.validate(json.loads(text), schema)


def test_the_worked_example_of_the_contributors_guide_passes_its_own_tests(tmp_path):
    shown = pages.files((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    for name, text in shown.items():
        (tmp_path / Path(name).name).write_text(text, encoding="utf-8")
    (tmp_path / "conftest.py").write_text(
        f"import samedevice.rules\nsamedevice.rules.__path__.append({str(tmp_path)!r})\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )

    assert "2 passed" in done.stdout, done.stdout


def test_a_session_tells_commands_from_output():
    first, second = pages.session("$ one\na\nb\n$ two\n")

    assert (first.line, first.output) == ("one", ["a", "b"])
    assert (second.line, second.output) == ("two", [])


def test_a_page_that_is_out_of_step_is_noticed(tmp_path):
    page = "```console\n$ echo new\nold\n```\n"

    assert pages.play(page, tmp_path) == "```console\n$ echo new\nnew\n```\n"
