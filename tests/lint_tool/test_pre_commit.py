"""The hooks that `.pre-commit-hooks.yaml` offers work in a repository that uses them, without a network."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pre_commit", reason="needs pre-commit")
if shutil.which("git") is None:
    pytest.skip("needs git", allow_module_level=True)

ROOT = Path(__file__).parents[2]

# `language: unsupported` (system) takes the `samedevice` of this environment; users let pre-commit install it.
CONFIG = """
repos:
  - repo: {hooks}
    rev: v1
    hooks:
      - id: {hook}
        language: {language}
"""


@pytest.fixture
def repository(tmp_path):
    """A repository with one file that has a problem, and what runs a hook in it."""
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PRE_COMMIT_HOME": str(tmp_path / "home"),
        "SAMEDEVICE_CACHE_DIR": str(tmp_path / "cache"),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org",
    }  # fmt: skip
    for name in [
        name for name in environment if name.startswith("GIT_") and name in ("GIT_DIR", "GIT_INDEX_FILE")
    ]:
        del environment[name]

    def run(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
        )

    hooks = tmp_path / "hooks"
    hooks.mkdir()
    shutil.copy(ROOT / ".pre-commit-hooks.yaml", hooks)
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "Hooks"], ["tag", "v1"]):
        assert run("git", *words, folder=hooks).returncode == 0
    user = tmp_path / "user"
    user.mkdir()
    (user / "good.py").write_text("x = 1\n", encoding="utf-8")
    (user / "bad.py").write_text("x = 1  # samedevice: ignore\n", encoding="utf-8")
    (user / "notes.ipynb").write_text('{"cells": []}', encoding="utf-8")
    (user / "legacy.py").write_text("x = (\n", encoding="utf-8")
    (user / "samedevice.toml").write_text("exclude = ['legacy.py']\n", encoding="utf-8")
    run("git", "init", "-q", folder=user)

    def pre_commit(hook: str) -> subprocess.CompletedProcess[str]:
        version = run(sys.executable, "-m", "pre_commit", "--version", folder=user).stdout.split()[-1]
        language = "unsupported" if tuple(map(int, version.split(".")[:2])) >= (4, 4) else "system"
        text = CONFIG.format(hooks=hooks, hook=hook, language=language)
        (user / ".pre-commit-config.yaml").write_text(text, encoding="utf-8")
        run("git", "add", "-A", folder=user)
        return run(sys.executable, "-m", "pre_commit", "run", "--all-files", folder=user)

    pre_commit.folder = user
    return pre_commit


def test_a_problem_stops_the_commit_and_excluded_files_are_left_out(repository):
    done = repository("samedevice")

    assert done.returncode == 1, done.stdout + done.stderr
    assert "bad.py:1:8" in done.stdout
    assert "1 problem in 3 files" in done.stdout
    assert "legacy" not in done.stdout


def test_the_fixing_hook_fixes_and_lets_the_next_commit_pass(repository):
    first = repository("samedevice-fix")

    assert first.returncode == 1, first.stdout + first.stderr
    assert "files were modified by this hook" in first.stdout
    assert (repository.folder / "bad.py").read_text(encoding="utf-8") == "x = 1\n"
    assert repository("samedevice-fix").returncode == 0
    assert repository("samedevice").returncode == 0
