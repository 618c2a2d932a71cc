"""Files of safetensors on virtual GPUs."""

from pathlib import Path

import pytest

pytest.importorskip("safetensors")

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from samedevice import virtual_gpus
from tests.frameworks.running import assert_runs_as_on_the_cpu, found, line_of

pytestmark = pytest.mark.torch


def test_the_example_prints_the_numbers_of_the_cpu_and_nothing_is_found() -> None:
    assert_runs_as_on_the_cpu("safetensors_files")


def test_tensors_are_loaded_onto_the_gpu_that_is_asked_for(tmp_path: Path) -> None:
    file = str(tmp_path / "x.safetensors")
    with virtual_gpus(2):
        save_file({"x": torch.arange(6.0).reshape(2, 3).to("cuda:1")}, file)

        for asked, expected in (("cuda:1", "cuda:1"), (1, "cuda:1"), ("cuda", "cuda:0"), ("cpu", "cpu")):
            with safe_open(file, "pt", device=asked) as opened:
                part = opened.get_slice("x")[:, 1:]

            assert [load_file(file, device=asked)["x"].device, part.device] == [torch.device(expected)] * 2
        assert torch.equal(load_file(file, device="cuda")["x"].cpu(), torch.arange(6.0).reshape(2, 3))


PROGRAM = """
import tempfile
import torch
from safetensors.torch import load_file, save_file

model = torch.nn.Linear(4, 2).to("cuda")
with tempfile.TemporaryDirectory() as folder:
    save_file({"mean": torch.ones(2)}, f"{folder}/statistics.safetensors")
    statistics = load_file(f"{folder}/statistics.safetensors")  # mistake
print((model(torch.randn(3, 4, device="cuda")) - statistics["mean"]).sum().item())
"""


def test_a_file_loaded_without_a_device_is_where_the_mistake_is(tmp_path: Path) -> None:
    (diagnostic,) = found(PROGRAM, tmp_path)

    assert diagnostic.rule == "load-without-map-location"
    assert diagnostic.location.line == line_of(PROGRAM)
    assert diagnostic.help == "Load it onto cuda:0: `device=…`"
