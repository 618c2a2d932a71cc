"""Results are kept as long as nothing that they depend on has changed, and a broken cache is no cache."""

import os

import pytest

from samedevice.lint import cache as cache_module
from samedevice.lint.cache import MAGIC, load_cache


@pytest.fixture
def old(monkeypatch):
    """Makes every file look old enough for its time stamp to be trusted."""
    monkeypatch.setattr(cache_module, "RACY_NANOSECONDS", -1)


def only_cache(tmp_path) -> str:
    [file] = [entry.path for entry in os.scandir(tmp_path / "cache") if entry.name.endswith(".cache")]
    return file


FILES = {"a.py": 'bad("syntax-error")\n', "b.py": "x = 1\n"}


def test_what_has_not_changed_is_not_analysed_again_and_reported_alike(project, analysed, lint, old):
    project.all(FILES)
    first = lint("--format", "json")
    assert analysed == ["a.py", "b.py"]

    assert lint("--format", "json") == first
    assert analysed == ["a.py", "b.py"]


def test_a_changed_file_is_analysed_again(project, analysed, lint, old):
    project.all(FILES)
    lint()
    project(b='bad("syntax-error")\n')

    assert "2 problems" in lint()[1]
    assert analysed == ["a.py", "b.py", "b.py"]


def test_a_file_touched_but_not_changed_is_read_and_not_analysed(project, analysed, lint, old):
    root = project.all(FILES)
    lint()
    os.utime(root / "a.py", (1, 1))
    lint()

    assert analysed == ["a.py", "b.py"]


def test_a_change_that_keeps_size_and_time_is_noticed_while_it_is_fresh(project, analysed, lint):
    root = project(a="x = 1\n")
    lint()
    status = (root / "a.py").stat()
    (root / "a.py").write_text('bad("x")'[:6], encoding="utf-8")
    (root / "a.py").write_text("y = 1\n", encoding="utf-8")
    os.utime(root / "a.py", ns=(status.st_atime_ns, status.st_mtime_ns))
    lint()

    assert analysed == ["a.py", "a.py"]


def test_a_change_in_an_imported_file_counts(project, analysed, lint, old):
    project(a="from b import *\n", b='bad("seen-x")\n')
    assert "b.py:1:1" in lint("a.py", "--format", "concise")[1]
    project(b="x = 1\n")

    assert lint("a.py")[0] == 0


def test_a_new_file_that_an_import_now_finds_counts(project, analysed, lint, old):
    project(a="from b import *\n")
    assert lint("a.py")[0] == 0
    project(b='bad("seen-x")\n')

    assert lint("a.py")[0] == 1


def test_other_settings_have_other_results(project, analysed, lint, old):
    project(a='bad("syntax-error")\nbad("unused-suppression")\n')

    assert "2 problems" in lint()[1]
    assert "1 problem " in lint("--ignore", "unused-suppression")[1]
    assert "2 problems" in lint()[1]
    assert analysed == ["a.py", "a.py"]


def test_another_version_of_the_tool_has_other_results(project, analysed, lint, old, monkeypatch):
    project.all(FILES)
    lint()
    monkeypatch.setattr(cache_module, "fingerprint", lambda: "another")
    lint()

    assert analysed == ["a.py", "b.py"] * 2


def test_without_a_cache_nothing_is_kept(project, analysed, lint, tmp_path):
    project.all(FILES)
    lint("--no-cache")

    assert not (tmp_path / "cache").exists()


def test_suppressions_hold_for_kept_results_too(project, analysed, lint, old):
    project(a='bad("syntax-error")  # samedevice: ignore[syntax-error]\nx = 1  # samedevice: ignore[zzz]\n')
    first = lint("--format", "json", "--select", "unused-suppression")

    assert lint("--format", "json", "--select", "unused-suppression") == first
    assert "there is no rule `zzz`" in first[1]


def test_broken_files_stay_broken(project, analysed, lint, old):
    project(a="x = (\n")
    first = lint()

    assert first[0] == 2
    assert lint()[0] == 2


@pytest.mark.parametrize("data", [b"", b"nonsense", MAGIC, MAGIC + b"\0" * 40, None])
def test_a_broken_cache_is_passed_over_and_replaced(project, analysed, lint, old, tmp_path, data):
    project.all(FILES)
    first = lint()
    file = only_cache(tmp_path)
    with open(file, "rb") as stream:
        whole = stream.read()
    with open(file, "wb") as stream:
        stream.write(whole[:-3] if data is None else data)

    assert lint()[0] == first[0]
    assert load_cache(file).results.keys() == {"a.py", "b.py"}


def test_a_cache_makes_no_objects_but_records(tmp_path):
    import pickle
    from hashlib import blake2b

    class Evil:
        def __reduce__(self):
            return os.system, ("exit 1",)

    body = pickle.dumps(({}, {"a.py": Evil()}, {}))
    file = tmp_path / "x.cache"
    file.write_bytes(MAGIC + blake2b(body, digest_size=16).digest() + body)

    assert load_cache(str(file)).results == {}


def test_a_folder_that_cannot_be_written_is_no_reason_to_fail(project, analysed, lint, tmp_path):
    project.all(FILES)
    (tmp_path / "cache").write_text("a file, not a folder", encoding="utf-8")

    assert lint()[0] == 1


def test_a_cache_in_the_project_keeps_out_of_its_repository(project, lint):
    root = project.all({"samedevice.toml": "cache-dir = '.kept'\n", "a.py": "x = 1\n"})
    lint()

    assert (root / ".kept" / ".gitignore").read_text(encoding="utf-8") == "*\n"


def test_old_caches_are_swept_away(project, analysed, lint, tmp_path):
    project.all(FILES)
    lint()
    ancient = tmp_path / "cache" / "lint-0.cache"
    ancient.write_bytes(b"")
    os.utime(ancient, (1, 1))
    project(c="x = 2\n")
    lint()

    assert not ancient.exists()


def test_our_own_failure_is_not_kept(project, analysed, lint, old):
    project(a="crash()\n")
    assert lint()[0] == 2
    assert lint()[0] == 2
    assert analysed == ["a.py", "a.py"]
