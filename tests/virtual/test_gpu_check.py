"""The comparison with a real GPU, on a virtual one: its own machinery."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.slow]

FOLDER = Path(__file__).parents[2] / "conformance"


def test_a_virtual_gpu_agrees_with_itself_and_with_what_cuda_did(tmp_path: Path) -> None:
    output = tmp_path / "out.json"
    run = subprocess.run(
        [
            sys.executable, str(FOLDER / "gpu_check.py"), "--virtual", "--only", r"torch\.gcd|^lerp$|hidden state",
            "--json", str(output), "--budget", "240",
        ],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip

    assert run.returncode == 0, run.stdout + run.stderr
    found = json.loads(output.read_text())
    shares = {name: found[name] for name in ("complete", "verdict", "words", "places", "different")}
    assert shares == {"complete": True, "verdict": 100.0, "words": 100.0, "places": 100.0, "different": []}
    assert {name: share for name, share in found["recorded"].items() if name != "calls"} == {
        "verdict": 100.0, "words": 100.0, "places": 100.0,
    }  # fmt: skip
    assert found["recorded"]["calls"] > 3
    assert found["calls"] > found["recorded"]["calls"]
