"""SAMEDEVICE=1 in the environment installs the hook; without it nothing is imported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PTH = Path(__file__).parents[2] / "src" / "samedevice-env.pth"


def hooks(folder: Path, **environment: str) -> str:
    """Whether an interpreter whose site folder has the file has the hook, and imported samedevice."""
    (folder / PTH.name).write_text(PTH.read_text(encoding="utf-8"), encoding="utf-8")
    script = (
        f"import site, sys; site.addsitedir({str(folder)!r});"
        "print(sys.excepthook.__module__, 'samedevice' in sys.modules, 'samedevice.live' in sys.modules)"
    )
    keep = {k: v for k, v in os.environ.items() if k != "SAMEDEVICE"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**keep, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.strip()


def test_the_switch_installs_the_hook(tmp_path: Path) -> None:
    assert hooks(tmp_path, SAMEDEVICE="1") == "samedevice.crash True False"


@pytest.mark.parametrize("value", ["", "0", "yes"])
def test_without_it_nothing_happens(tmp_path: Path, value: str) -> None:
    assert hooks(tmp_path, SAMEDEVICE=value) == "sys False False"


def test_it_is_one_line_as_site_wants_it() -> None:
    lines = PTH.read_text(encoding="utf-8").splitlines()

    assert len(lines) == 1 and lines[0].startswith("import ")
