"""Several processes find what one finds, and outlive a file that brings one of them down."""

import os
import sys

import pytest

from samedevice.lint import pool, workspace
from samedevice.lint.engine_api import FileResult

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the analysis is replaced in forked processes"
)


@pytest.fixture
def many(project):
    files = {
        f"p{i % 5}/m{i}.py": f"from p{i % 5}.m0 import *\nx = {i}\n" + 'bad("syntax-error")\n' * (i % 3)
        for i in range(40)
    }
    return project.all(files)


def test_the_report_is_the_same_for_any_number_of_processes(many, analysed, lint):
    one = lint("--jobs", "1", "--no-cache", "--format", "json")
    for jobs in ("2", "3", "8"):
        assert lint("--jobs", jobs, "--no-cache", "--format", "json") == one
    assert one[0] == 1


def test_what_several_processes_find_is_kept_as_well(many, analysed, lint):
    one = lint("--jobs", "4", "--format", "json")
    analysed.clear()

    assert lint("--jobs", "1", "--format", "json") == one
    assert analysed == []


def test_small_runs_stay_in_one_process(project, analysed, lint):
    project(a="x = 1\n", b="x = 1\n")
    lint("--no-cache")

    assert analysed == ["a.py", "b.py"]


def test_a_file_that_kills_its_process_is_named_and_the_others_are_linted(
    project, analysed, lint, monkeypatch
):
    here = os.getpid()

    def analyse(file, project, selected):
        if "die" in file.text and os.getpid() != here:
            os._exit(13)
        return FileResult([])

    monkeypatch.setattr(workspace, "analyse_file", analyse)
    project(**{f"m{i}": "x = 1\n" for i in range(8)}, killer="die = 1\n")
    status, out, _ = lint("--jobs", "2", "--no-cache")

    assert status == 2
    assert "killer.py: the analysis brought the interpreter down" in out
    assert "in 9 files" in out


def test_chunks_hold_every_path_once():
    paths = [str(i) for i in range(997)]

    assert [path for chunk in pool.chunks(paths, 7) for path in chunk] == paths
