"""What all tests share: golden files, and surroundings that are the same on every machine."""

import os
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest

# Machines are shared and noisy: how long one example takes says nothing.
hypothesis.settings.register_profile("samedevice", deadline=None)
hypothesis.settings.load_profile("samedevice")

# What a shell or a CI service sets changes what programs print and do: pytest below pytest writes whole
# messages where CI is set, torch counts the GPUs that are visible, a launcher's rank makes a process one of many.
# The tests and all that they start see none of it.
_OUTSIDE = {
    *("BUILD_NUMBER", "CI", "GITHUB_ACTIONS", "PYTEST_ADDOPTS", "PYTHONWARNINGS"),
    *(
        "COLUMNS",
        "FORCE_COLOR",
        "LINES",
        "NO_COLOR",
        "PY_COLORS",
        "TERM",
        "TTY_COMPATIBLE",
        "TTY_INTERACTIVE",
    ),
    *("CUDA_VISIBLE_DEVICES", "GROUP_RANK", "RANK", "WORLD_SIZE"),
}
_OUTSIDE_PREFIXES = ("LOCAL_", "MASTER_", "SAMEDEVICE_", "TORCHELASTIC_")
for _name in list(os.environ):
    if _name in _OUTSIDE or _name.startswith(_OUTSIDE_PREFIXES):
        del os.environ[_name]

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
