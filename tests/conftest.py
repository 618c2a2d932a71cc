"""What all tests share: golden files."""

import os
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest

# Machines are shared and noisy: how long one example takes says nothing.
hypothesis.settings.register_profile("samedevice", deadline=None)
hypothesis.settings.load_profile("samedevice")

#: the tests of the pytest plugin run pytest below pytest
pytest_plugins = ["pytester"]

# It asserts for the tests of all frameworks.
pytest.register_assert_rewrite("tests.frameworks.running")

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write what is rendered to tests/golden")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with `tests/golden/NAME`; `--update-golden` writes the file instead."""

    def check(name: str, actual: str) -> None:
        file = GOLDEN / name
        if request.config.getoption("--update-golden"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(actual, encoding="utf-8")

        assert actual == file.read_text(encoding="utf-8")

    return check


@pytest.fixture(scope="session", autouse=True)
def _caches_stay_within_the_tests(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ["SAMEDEVICE_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))
