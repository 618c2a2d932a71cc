"""What must not be imported: the light commands stay light."""

import subprocess
import sys

import pytest

HEAVY = ("torch", "rich", "jinja2", "numpy", "pygls", "executing", "importlib.metadata")
#: imported by pytest itself
OF_PYTEST = {"importlib.metadata"}

LIGHT = {
    "the package": "import samedevice",
    "the command line's help": "from samedevice.cli import main; main(['--help'])",
    "the version": "from samedevice.cli import main; main(['--version'])",
    "lint": "import samedevice.lint",
    "the JSON report": "import samedevice.report.json",
    "the SARIF report": "import samedevice.report.sarif",
    "the GitHub report": "import samedevice.report.github",
    "the text report in a pipe": """
from samedevice.model.outcome import Outcome
from samedevice.report import render
render(Outcome("lint", files=1), "text")
""",
    "the pytest plugin": "import samedevice.pytest_plugin",
    "the rules": "from samedevice.rules import all_rules; all_rules()",
}


def heavy_imports(code: str) -> list[str]:
    """Which of `HEAVY` a fresh interpreter has imported after `code`."""
    script = f"""
import sys
try:
    exec({code!r})
except SystemExit:
    pass
sys.stderr.write(" ".join(name for name in {HEAVY!r} if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr.split()


@pytest.mark.parametrize("code", LIGHT.values(), ids=LIGHT)
def test_nothing_heavy_is_imported_for(code):
    theirs = OF_PYTEST if "pytest" in code else set()

    assert [name for name in heavy_imports(code) if name not in theirs] == []


def test_the_check_can_fail():
    assert heavy_imports("import rich, jinja2") == ["rich", "jinja2"]


def test_importing_the_package_names_what_it_offers():
    import samedevice

    assert set(samedevice.__all__) <= set(dir(samedevice))
