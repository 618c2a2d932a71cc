"""Which modules of the user's the running code has imported."""

import importlib
import sys
from pathlib import Path

import pytest

from samedevice.program.imported import imported_modules


def test_only_what_the_running_code_imports_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "parts_of").mkdir()
    (tmp_path / "parts_of" / "__init__.py").write_text("")
    (tmp_path / "parts_of" / "settings.py").write_text("import json\nDEVICE = 'cuda'\n")
    (tmp_path / "parts_of" / "loop.py").write_text(
        "import sys\nfrom .settings import DEVICE\ndef frame():\n    return sys._getframe()\n"
    )
    (tmp_path / "stranger_to_it.py").write_text("DEVICE = 'cpu'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.import_module("stranger_to_it")
    frame = importlib.import_module("parts_of.loop").frame()

    assert sorted(imported_modules([frame])) == ["parts_of", "parts_of.loop", "parts_of.settings"]

    for name in ("parts_of", "parts_of.loop", "parts_of.settings", "stranger_to_it"):
        del sys.modules[name]
