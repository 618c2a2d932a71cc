"""Imports are found in the project's files, and never outside of it."""

import os

import pytest

from samedevice.lint.importing import Listing, SearchPath, place_of


@pytest.fixture
def search(project):
    """Finds a module as seen from a file of a project with the given files."""

    def make(*names: str):
        root = project.all(dict.fromkeys(names, ""))

        def find(seen_from: str, module: str, tops=()) -> str | None:
            listing = Listing()
            place = place_of(str(root / seen_from), listing)
            path = SearchPath(place.root, place.only, [str(root / top) for top in tops], listing).find(module)
            return path and os.path.relpath(path, root)

        return find

    return make


def test_a_module_beside_a_script_is_found(search):
    find = search("train.py", "model.py", "models/net.py", "pkg/__init__.py")

    assert find("train.py", "model") == "model.py"
    assert find("train.py", "models.net") == "models/net.py"
    assert find("train.py", "pkg") == "pkg/__init__.py"


def test_a_folder_without_code_of_its_own_is_no_file(search):
    assert search("train.py", "models/net.py")("train.py", "models") is None


def test_within_a_package_names_start_at_its_outermost_folder(search):
    find = search("src/pkg/__init__.py", "src/pkg/deep/__init__.py", "src/pkg/deep/a.py", "src/pkg/b.py")

    assert find("src/pkg/deep/a.py", "pkg.b") == "src/pkg/b.py"
    assert find("src/pkg/deep/a.py", "b") is None


def test_the_project_above_is_searched_up_to_its_root_and_in_its_source_folder(search):
    find = search("pyproject.toml", "scripts/train.py", "src/pkg/__init__.py", "config.py", "scripts/x/y.py")

    assert find("scripts/train.py", "pkg") == "src/pkg/__init__.py"
    assert find("scripts/train.py", "config") == "config.py"
    assert find("scripts/x/y.py", "train") == "scripts/train.py"


def test_without_a_mark_of_a_project_the_search_ends_at_the_folder_that_is_linted(search):
    find = search("work/deep/train.py", "work/config.py", "other.py")

    assert find("work/deep/train.py", "config") is None
    assert find("work/deep/train.py", "config", tops=["work"]) == "work/config.py"
    assert find("work/deep/train.py", "other", tops=["work"]) is None


def test_an_installed_package_sees_nothing_but_itself(search):
    find = search("site-packages/one/__init__.py", "site-packages/one/a.py", "site-packages/two/__init__.py")

    assert find("site-packages/one/a.py", "one") == "site-packages/one/__init__.py"
    assert find("site-packages/one/a.py", "two") is None


def test_torch_is_known_as_data_and_never_read(search):
    assert search("train.py", "torch/__init__.py")("train.py", "torch") is None


@pytest.mark.parametrize("name", ["", ".", "a..b", "..", "a/b", "\x00"])
def test_odd_names_are_nowhere(search, name):
    assert search("train.py", "a/b.py")("train.py", name) is None
