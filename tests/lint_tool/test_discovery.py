"""Which files are linted: folders without what nobody means, files by name always."""

import subprocess

import pytest

from samedevice.config.patterns import Patterns
from samedevice.lint.discovery import Discovery
from samedevice.model.errors import UserError


@pytest.fixture
def tree(project):
    """Makes empty files, and `.gitignore` files with contents."""

    def make(*names: str, **contents: str):
        files = dict.fromkeys(names, "") | contents
        return project.all(files)

    return make


def found(*arguments: str, **kw) -> list[str]:
    return list(Discovery(**kw).find(arguments))


def test_python_files_and_notebooks_are_found_recursively_and_in_order(tree):
    tree("b.py", "a/z.py", "a/n.ipynb", "a/w.pyw", "a/readme.md", "a/stub.pyi", "c/d/e.py")

    assert found(".") == ["a/n.ipynb", "a/w.pyw", "a/z.py", "b.py", "c/d/e.py"]


@pytest.mark.parametrize(
    "folder",
    [".git", ".venv", "venv", "__pycache__", "node_modules", ".ipynb_checkpoints", ".tox", "site-packages"],
)
def test_the_usual_folders_are_passed_over(tree, folder):
    tree(f"{folder}/a.py", f"src/{folder}/b.py", "c.py")

    assert found(".") == ["c.py"]


def test_build_results_are_passed_over_but_a_package_of_that_name_is_not(tree):
    tree("build/lib/a.py", "dist/b.py", "pkg/build/__init__.py", "pkg/build/c.py")

    assert found(".") == ["pkg/build/__init__.py", "pkg/build/c.py"]


def test_an_environment_of_any_name_is_passed_over(tree):
    tree("my-env/pyvenv.cfg", "my-env/lib/a.py", "b.py")

    assert found(".") == ["b.py"]


def test_a_file_given_by_name_is_linted_whatever_it_is(tree):
    tree("venv/a.py", "script", ".gitignore")

    assert found("venv/a.py", "script", exclude=(Patterns(["script"], "."),)) == ["venv/a.py", "script"]


def test_a_folder_given_by_name_is_searched_even_if_it_is_a_usual_one(tree):
    tree("venv/a.py")

    assert found("venv") == ["venv/a.py"]


def test_a_file_given_twice_is_linted_once(tree):
    root = tree("a.py", "b/c.py")

    assert found("b/c.py", ".", str(root / "a.py"), "./a.py") == ["b/c.py", "a.py"]


def test_paths_below_the_working_directory_are_relative_and_others_absolute(tree, monkeypatch):
    root = tree("a/b.py", "c.py")
    monkeypatch.chdir(root / "a")

    assert found(str(root / "a"), "../c.py") == ["b.py", str(root / "c.py")]


def test_excluded_paths_are_passed_over(tree):
    root = tree("a.py", "legacy/b.py", "src/legacy/c.py", "src/d.py")

    assert found(".", exclude=(Patterns(["legacy", "src/d.py"], str(root)),)) == ["a.py"]


def test_force_exclude_holds_for_names_too(tree):
    root = tree("a.py", "legacy/b.py")
    patterns = (Patterns(["legacy"], str(root)),)

    assert found("legacy/b.py", "a.py", exclude=patterns, force_exclude=True) == ["a.py"]


def test_what_does_not_exist_is_an_error_that_names_it(tree):
    tree("a.py")
    (tree("b.py") / "dangling.py").symlink_to("nowhere.py")

    with pytest.raises(UserError, match=r"^none\.py does not exist$"):
        found("none.py")
    with pytest.raises(UserError, match=r"^dangling\.py is a symbolic link to a file that does not exist$"):
        found("dangling.py")
    assert found(".") == ["a.py", "b.py"]


def test_links_to_folders_are_not_followed_round_in_circles(tree):
    root = tree("a/b.py")
    (root / "a" / "loop").symlink_to(root)

    assert found(".") == ["a/b.py"]


GITIGNORE = """
# a comment
*_generated.py
/top.py
deep/inner/
!keep_generated.py
build-*/
bad[pattern
"""


def test_gitignore_is_followed(tree):
    tree(
        "top.py", "a.py", "a_generated.py", "keep_generated.py", "src/top.py", "deep/inner/x.py", "deep/y.py",
        "build-1/z.py", ".git/HEAD", **{".gitignore": GITIGNORE},
    )  # fmt: skip

    assert found(".") == ["a.py", "deep/y.py", "keep_generated.py", "src/top.py"]
    assert "top.py" in found(".", respect_gitignore=False)


def test_a_nested_gitignore_holds_below_its_folder_and_overrides_the_outer_one(tree):
    tree(
        "a.py", "sub/a.py", "sub/b.py", "b.py", ".git/HEAD",
        **{".gitignore": "a.py\n", "sub/.gitignore": "!a.py\nb.py\n"},
    )  # fmt: skip

    assert found(".") == ["b.py", "sub/a.py"]


def test_the_repository_above_counts_and_so_does_its_private_exclude_file(tree):
    tree(
        "src/a.py", "src/b.py", "src/c.py", ".git/HEAD",
        **{".gitignore": "src/a.py\n", ".git/info/exclude": "b.py\n"},
    )  # fmt: skip

    assert found("src") == ["src/c.py"]


def test_beyond_the_repository_nothing_counts(tree):
    tree("repo/a.py", "repo/.git/HEAD", **{".gitignore": "*.py\n"})

    assert found("repo") == ["repo/a.py"]


def test_an_ignored_folder_given_by_name_is_meant(tree):
    tree("out/a.py", "out/deep/b.py", ".git/HEAD", **{".gitignore": "out/\n"})

    assert found("out") == ["out/a.py", "out/deep/b.py"]
    assert found("out/deep") == ["out/deep/b.py"]
    assert found(".") == []


def test_git_itself_agrees(tree):
    names = [f"{folder}{name}.py" for folder in ("", "x/", "x/y/", "z/") for name in ("a", "b", "tmp_c")]
    ignores = {
        ".gitignore": "tmp_*\n/x/a.py\nz/**\n!z/b.py\n**/y/b.py\n",
        "x/.gitignore": "/b.py\n!tmp_c.py\n",
    }
    root = tree(*names, **ignores)
    try:
        subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs git")
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "--", "*.py"],
        cwd=root, check=True, capture_output=True, text=True,
    )  # fmt: skip

    assert sorted(found(".")) == sorted(listed.stdout.split())
