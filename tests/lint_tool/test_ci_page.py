"""The recipes of `docs/ci.md` are valid, and their commands do what the page says."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml", reason="needs PyYAML")

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```yaml[^\n]*\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = re.findall(r"run: samedevice (lint[^\n]*)", PAGE)


def test_every_block_is_yaml():
    assert len(BLOCKS) >= 4
    for block in BLOCKS:
        yaml.safe_load(block)


def test_the_hooks_that_the_page_names_are_offered():
    offered = {hook["id"] for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
    used = {hook["id"] for hook in yaml.safe_load(BLOCKS[0])["repos"][0]["hooks"]}

    assert used <= offered
    assert all(f"`{name}`" in PAGE for name in offered)


def test_the_workflow_uploads_the_file_that_its_command_writes():
    steps = yaml.safe_load(BLOCKS[1])["jobs"]["lint"]["steps"]
    [command] = [step["run"] for step in steps if "lint" in step.get("run", "")]
    [upload] = [step["with"]["sarif_file"] for step in steps if "sarif" in step.get("uses", "")]

    assert command.endswith(f"--output {upload}")


@pytest.mark.parametrize("command", sorted(set(COMMANDS)))
def test_its_commands_run(tmp_path, command):
    (tmp_path / "a.py").write_text("x = 1  # samedevice: ignore\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "samedevice", *command.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (1, "")
    if "github" in command:
        assert done.stdout.startswith("::warning ")
    else:
        found = json.loads((tmp_path / "samedevice.sarif").read_text(encoding="utf-8"))
        assert found["runs"][0]["results"][0]["ruleId"] == "unused-suppression"
