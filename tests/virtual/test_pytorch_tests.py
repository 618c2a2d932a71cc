"""The runner of PyTorch's own tests, on a file of three."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.slow]

RUNNER = Path(__file__).parents[2] / "conformance" / "pytorch_tests.py"
SAMPLE = """
import os
import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests, onlyCPU
from torch.testing._internal.common_utils import TestCase

class TestSample(TestCase):
    def test_passes(self, device):
        self.assertEqual(torch.ones(2, device=device).sum().item(), 2)

    def test_fails_on_any_device(self, device):
        self.assertEqual(str(torch.ones(2, device=device).device), "meta")

    def test_fails_on_a_gpu(self, device):
        self.assertEqual(torch.device(device).type, "cpu")

    def test_kills_a_process_with_a_gpu(self, device):
        if torch.device(device).type == "cuda":
            os._exit(3)

    @onlyCPU
    def test_of_the_cpu(self, device):
        pass

instantiate_device_type_tests(TestSample, globals())
"""


def test_each_test_is_judged_beside_the_cpu_and_one_that_kills_its_process_is_named(tmp_path: Path) -> None:
    (tmp_path / "test_sample.py").write_text(SAMPLE)
    output = tmp_path / "out.json"
    run = subprocess.run(
        [sys.executable, str(RUNNER), "--tests", str(tmp_path), "test_sample.py", "--json", str(output)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 1, run.stdout + run.stderr
    found = json.loads(output.read_text())["test_sample.py"]
    outcomes = {name.split(".test_")[1]: (test["outcome"], test["cpu"]) for name, test in found.items()}
    assert outcomes == {
        "passes_cuda": ("passed", ""),
        "fails_on_any_device_cuda": ("failed", "failed"),
        "fails_on_a_gpu_cuda": ("failed", "passed"),
        "kills_a_process_with_a_gpu_cuda": ("crashed", "passed"),
        "of_the_cpu_cuda": ("skipped", ""),
    }
    numbers = next(line for line in run.stdout.splitlines() if line.startswith("test_sample.py")).split()[1:]
    assert numbers == ["4", "1", "1", "0", "1", "0", "1", "1"]
