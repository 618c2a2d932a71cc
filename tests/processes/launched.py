"""Runs of programs with several processes, as tests look at them."""

import json
import os
import site
import subprocess
import sys
from pathlib import Path
from typing import Any

INSTALLED = any((Path(folder) / "samedevice-env.pth").exists() for folder in site.getsitepackages())

#: as on a machine that is shared with other tests
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "NO_COLOR": "1"}


def check(
    folder: Path, *words: str, launcher: tuple[str, ...] = (), timeout: float = 200
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """Run `samedevice check` in `folder`; returns the process and its JSON report."""
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    start = [sys.executable, "-m", *launcher, *(["-m"] if launcher else []), "samedevice", "check"]
    done = subprocess.run(
        [*start, "--format", "json", "--output", str(report), *words],
        cwd=folder,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
    return done, json.loads(report.read_text()) if report.exists() else {}


def found(report: dict[str, Any], program: Path) -> dict[str, tuple[int, list[int], int]]:
    """Source line of each mistake -> (count, ranks, processes)."""
    lines = program.read_text().splitlines()
    return {
        lines[d["location"]["line"] - 1].strip(): (d["count"], d["ranks"], d.get("processes", 1))
        for d in report["diagnostics"]
    }
