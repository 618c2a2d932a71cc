"""Ray Train on virtual GPUs, through Ray's own launcher."""

import pytest
from launched import check, found

pytest.importorskip("torch")
pytest.importorskip("ray.train.torch", reason="Ray is not installed; nothing of samedevice needs it")

pytestmark = [pytest.mark.torch, pytest.mark.slow]

PROGRAM = """\
import os

import ray.train
import torch
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer, get_device


def loop(config):
    weight = torch.ones(4, device=get_device())
    if ray.train.get_context().get_world_rank() == 1:
        weight = weight + torch.zeros(4)
    ray.train.report({"sum": weight.sum().item(), "gpus": torch.cuda.device_count()})


if __name__ == "__main__":
    trainer = TorchTrainer(
        loop,
        torch_config=TorchConfig(backend="gloo"),
        scaling_config=ScalingConfig(num_workers=2, use_gpu=True),
        run_config=RunConfig(storage_path=os.getcwd()),
    )
    trainer.fit()
"""


def test_the_workers_of_a_trainer_have_the_gpus_and_tell_what_they_find(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    done, report = check(tmp_path, "--gpus", "2", "train.py", timeout=280)

    assert found(report, program) == {"weight = weight + torch.zeros(4)": (1, [1], 1)}, done.stderr
    assert (done.returncode, report["summary"]["program"]) == (1, "finished")
