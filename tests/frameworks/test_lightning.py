"""Lightning's `Trainer` and Fabric on virtual GPUs."""

import json
import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lightning")

from tests.frameworks.running import EXAMPLES, assert_runs_as_on_the_cpu, found, line_of

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def _no_chatter() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


@pytest.mark.parametrize("example", ["lightning_trainer", "lightning_fabric"])
def test_an_example_prints_the_numbers_of_the_cpu_and_nothing_is_found(example: str) -> None:
    assert_runs_as_on_the_cpu(example)


PROGRAM = """
import copy

import lightning
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import MulticlassAccuracy


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 3)

    def forward(self, points):
        return self.net(points)

    def training_step(self, batch, index):
        points, labels = batch
        return nn.functional.cross_entropy(self(points), labels)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


{more}

loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randint(0, 3, (8,))), batch_size=4)
quiet = dict.fromkeys(
    ["logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"], False
)
{fit}
"""

FIT = """
trainer = lightning.Trainer(accelerator="gpu", devices=[0], max_epochs=1, **quiet)
trainer.fit(Model(), loader, loader)
"""

MISTAKES = {
    "a tensor made in training_step names no device": (
        "factory-without-device",
        """
class Model(Classifier):
    def training_step(self, batch, index):
        points, labels = batch
        level = torch.rand(len(points), 1)  # mistake
        return nn.functional.cross_entropy(self(points + level * torch.randn_like(points)), labels)
""",
        FIT,
    ),
    "a metric is kept in a plain dictionary of the module": (
        "module-in-container",
        """
class Model(Classifier):
    def __init__(self):
        super().__init__()
        self.measures = {stage: MulticlassAccuracy(3) for stage in ("train", "val")}  # mistake

    def validation_step(self, batch, index):
        points, labels = batch
        self.log("accuracy", self.measures["val"](self(points), labels))
""",
        FIT,
    ),
    "a table is a plain attribute of the module": (
        "unregistered-tensor",
        """
class Model(Classifier):
    def __init__(self):
        super().__init__()
        self.prior = torch.tensor([0.2, 0.3, 0.5]).log()  # mistake

    def forward(self, points):
        return self.net(points) + self.prior
""",
        FIT,
    ),
    "a callback copies the model before the trainer moves it": (
        "copy-left-behind",
        """
class Average(lightning.Callback):
    def setup(self, trainer, pl_module, stage):
        self.shadow = copy.deepcopy(pl_module.net)  # mistake

    @torch.no_grad()
    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        for mean, value in zip(self.shadow.parameters(), pl_module.net.parameters()):
            mean.lerp_(value, 0.1)
""",
        FIT.replace("**quiet", "callbacks=[Average()], **quiet").replace("Model()", "Classifier()"),
    ),
    "a callback predicts samples that nobody moves": (
        "batch-not-moved",
        """
class Look(lightning.Callback):
    def __init__(self, samples):
        self.samples = samples

    @torch.no_grad()
    def on_train_epoch_end(self, trainer, pl_module):
        print(pl_module(self.samples).mean())  # mistake
""",
        "samples, _ = next(iter(loader))"
        + FIT.replace("**quiet", "callbacks=[Look(samples)], **quiet").replace("Model()", "Classifier()"),
    ),
    "outputs of the validation go to numpy": (
        "numpy-on-gpu",
        """
class Model(Classifier):
    def on_validation_epoch_start(self):
        self.scores = []

    def validation_step(self, batch, index):
        self.scores.append(self(batch[0]))

    def on_validation_epoch_end(self):
        self.log("spread", float(np.std(torch.cat(self.scores).numpy())))  # mistake
""",
        FIT,
    ),
    "a second model is not set up by Fabric": (
        "module-not-moved",
        "",
        """
fabric = lightning.Fabric(accelerator="gpu", devices=1)
student = fabric.setup_module(nn.Linear(4, 3))
teacher = nn.Linear(4, 3)  # mistake
for points, _ in fabric.setup_dataloaders(loader):
    fabric.backward(nn.functional.mse_loss(student(points), teacher(points).detach()))
""",
    ),
    "a loader is not set up by Fabric": (
        "batch-not-moved",
        "",
        """
fabric = lightning.Fabric(accelerator="gpu", devices=1)
model = fabric.setup_module(nn.Linear(4, 3))
with torch.no_grad():
    for points, labels in loader:
        print(nn.functional.cross_entropy(model(points), labels.to(fabric.device)))  # mistake
""",
    ),
}


@pytest.mark.parametrize(("rule", "more", "fit"), MISTAKES.values(), ids=MISTAKES)
def test_the_one_mistake_of_a_program_is_found(rule: str, more: str, fit: str, tmp_path: Path) -> None:
    source = PROGRAM.format(more=more, fit=fit)
    diagnostics = found(source, tmp_path)

    assert [(d.rule, d.location.line) for d in diagnostics] == [(rule, line_of(source))]


SOUND = {
    "half precision": """
for precision in ("16-mixed", "bf16-mixed", "16-true", "bf16-true", "64-true"):
    for accelerator in ("auto", "gpu", "cuda"):
        trainer = lightning.Trainer(accelerator=accelerator, precision=precision, fast_dev_run=1, **quiet)
        trainer.fit(Model(), loader)
        assert trainer.strategy.root_device == torch.device("cuda", 0)
fabric = lightning.Fabric(accelerator="cuda", devices="auto", precision="bf16-mixed")
model, optimizer = fabric.setup(*(lambda m: (m, torch.optim.SGD(m.parameters(), lr=0.1)))(nn.Linear(4, 3)))
for points, labels in fabric.setup_dataloaders(loader):
    fabric.backward(nn.functional.cross_entropy(model(points), labels))
    fabric.clip_gradients(model, optimizer, clip_val=0.5)
    optimizer.step()
""",
    "the tuner": """
from lightning.pytorch.tuner import Tuner
trainer = lightning.Trainer(accelerator="gpu", devices=1, max_epochs=1, **quiet)
model = Model()
Tuner(trainer).lr_find(model, loader, min_lr=1e-3, max_lr=1e-1, num_training=4, attr_name="rate")
Tuner(trainer).scale_batch_size(model, datamodule=Data(), max_trials=1, steps_per_trial=1)
trainer.fit(model, loader)
""",
    "values logged from anywhere, averaging, profiling, a second process's loader": """
from lightning.pytorch.callbacks import DeviceStatsMonitor, StochasticWeightAveraging
from lightning.pytorch.loggers import CSVLogger
quiet["logger"] = CSVLogger("logs")
callbacks = [StochasticWeightAveraging(0.1, swa_epoch_start=1), DeviceStatsMonitor()]
trainer = lightning.Trainer(
    accelerator="gpu", devices="0,", max_epochs=3, callbacks=callbacks, profiler="simple", detect_anomaly=True,
    log_every_n_steps=1, reload_dataloaders_every_n_epochs=1, **quiet
)
trainer.fit(Logging(), DataLoader(loader.dataset, batch_size=4, num_workers=1, pin_memory=True), loader)
assert trainer.strategy.root_device.type == "cuda" and torch.cuda.max_memory_allocated() > 0
""",
}

MODELS = """
class Model(Classifier):
    def __init__(self):
        super().__init__()
        self.rate = 0.1

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.rate)


class Logging(Classifier):
    def __init__(self):
        super().__init__()
        self.accuracy = MulticlassAccuracy(3)

    def validation_step(self, batch, index):
        points, labels = batch
        self.accuracy(self(points), labels)
        self.log("accuracy", self.accuracy)
        self.log("on the host", torch.tensor(1.0), sync_dist=True)
        self.log("a number", 2.0, reduce_fx="max")
        self.log_dict({"here": torch.tensor(1.0, device=self.device), "norm": self.net.weight.norm()})


class Data(lightning.LightningDataModule):
    batch_size = 1

    def train_dataloader(self):
        return DataLoader(loader.dataset, batch_size=self.batch_size)
"""


@pytest.mark.parametrize("fit", SOUND.values(), ids=SOUND)
def test_nothing_is_found_in_a_sound_program(
    fit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    diagnostics = found(PROGRAM.format(more=MODELS, fit=fit), tmp_path)

    assert diagnostics == []


@pytest.mark.slow
def test_two_processes_of_the_ddp_launcher_train_as_on_the_cpu(tmp_path: Path) -> None:
    script, report = EXAMPLES / "lightning_ddp.py", tmp_path / "report.json"
    command = [sys.executable, "-m", "samedevice", "check", "--gpus", "2", "--format", "json"]
    on_cpu, on_gpus = (
        subprocess.run(
            words, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False
        )
        for words in ([sys.executable, script], [*command, "--output", report, script])
    )

    assert (on_cpu.returncode, on_gpus.returncode) == (0, 0), on_cpu.stderr + on_gpus.stderr
    assert "2 processes" in on_cpu.stdout
    assert on_gpus.stdout == on_cpu.stdout
    assert "distributed_backend=nccl" in on_gpus.stderr
    assert json.loads(report.read_text())["diagnostics"] == []
