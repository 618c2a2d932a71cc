"""A sample of `scripts/fuzz_lint.py`: mutated sources never bring a traceback of ours."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_mutated_files_are_linted_without_a_failure():
    # Our own sources and tests, so that the sample is the same on every machine.
    done = subprocess.run(
        [
            sys.executable,
            ROOT / "scripts" / "fuzz_lint.py",
            "--count",
            "150",
            ROOT / "src",
            ROOT / "examples",
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "150 files, 0 failures" in done.stdout
