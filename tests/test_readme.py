"""The README is true: its run prints what it shows, its picture shows the same."""

import importlib.util
import re
from pathlib import Path

import pages
import pytest

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"


@pytest.fixture(scope="module")
def played() -> str:
    """The README with what its commands print now."""
    page = pages.play(README.read_text(encoding="utf-8"), ROOT)
    assert "Traceback (most recent call last)" not in page
    return page


@pytest.mark.torch
def test_the_run_that_is_shown_is_the_run_that_happens(played, request):
    if request.config.getoption("--update-golden"):
        README.write_text(played, encoding="utf-8")
        return

    assert pages.steady(played) == pages.steady(README.read_text(encoding="utf-8"))


@pytest.mark.torch
def test_the_picture_shows_the_same_text(played):
    spec = importlib.util.spec_from_file_location("picture", ROOT / "scripts" / "picture.py")
    assert spec is not None and spec.loader is not None
    picture = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(picture)
    shown = re.search(r"```console\n(\$ samedevice check .*?)```", played, re.DOTALL)
    assert shown is not None
    drawn = picture.letters((ROOT / "docs" / "assets" / "demo.svg").read_text(encoding="utf-8"))
    printed = "".join(re.sub(r" \(\d+\.\d s\)", "", shown[1]).split())

    assert re.sub(r"\d\.\d+", "#", drawn).endswith(re.sub(r"\d\.\d+", "#", printed))


def test_every_path_that_is_named_exists():
    named = re.findall(r"\]\(([^)#:]+)\)", README.read_text(encoding="utf-8"))

    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_supported_versions_are_those_of_the_project_file():
    text = README.read_text(encoding="utf-8")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")

    minors = re.findall(r"Programming Language :: Python :: (3\.\d+)", project)
    default = re.search(r"^torch=([\d.]+)$", (ROOT / "scripts" / "setup").read_text(), re.MULTILINE)

    assert f"Python {minors[0]} to {minors[-1]}" in text
    assert default is not None and f"torch {default[1].rpartition('.')[0]} " in text
