"""Patterns of paths mean what people expect of them from `.gitignore`."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samedevice.config.patterns import Patterns


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("legacy", "legacy/a.py", True),
        ("legacy", "src/legacy/a.py", True),
        ("legacy/", "src/legacy/a.py", True),
        ("legacy", "src/legacy.py", False),
        ("*.py", "a.py", True),
        ("*_test.py", "src/a_test.py", True),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/deep/a.py", False),
        ("src/**/*.py", "src/deep/er/a.py", True),
        ("src/**/*.py", "src/a.py", True),
        ("src/**", "src/deep/a.py", True),
        ("/setup.py", "setup.py", True),
        ("/setup.py", "src/setup.py", False),
        ("./src/a.py", "src/a.py", True),
        ("tests/", "tests/a.py", True),
        ("a?.py", "ab.py", True),
        ("a[0-9].py", "a1.py", True),
        ("a[!0-9].py", "a1.py", False),
        ("a[.py", "a[.py", True),
        ("a+b(1).py", "a+b(1).py", True),
        ("", "a.py", False),
        ("/", "a.py", False),
    ],
)
def test_a_pattern_fits(tmp_path, pattern, path, fits):
    assert Patterns([pattern], str(tmp_path)).match(os.path.join(tmp_path, path)) is fits


def test_what_lies_outside_of_the_folder_is_not_fitted_by_anchored_patterns(tmp_path):
    assert not Patterns(["src/*.py"], str(tmp_path / "in")).match(str(tmp_path / "src" / "a.py"))


@given(st.text(alphabet="ab*?[]!^-\\/.+(){}|$", max_size=12))
def test_any_pattern_is_taken(pattern):
    Patterns([pattern], "/root").match("/root/a/b.py")
