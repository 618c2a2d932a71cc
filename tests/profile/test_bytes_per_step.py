"""The bytes of a training step agree with a count by hand, whoever writes the loop."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")

from profile_running import found, profiled

import samedevice

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@pytest.fixture(autouse=True, scope="module")
def gpus() -> Iterator[None]:
    with samedevice.virtual_gpus(1):
        yield


HAND_WRITTEN = """\
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

device, block, batch, width = "cuda", 16, 4, 8
data = np.random.default_rng(0).integers(0, 50, 2000).astype(np.uint16)


def get_batch():
    ix = torch.randint(len(data) - block, (batch,))
    x = torch.stack([torch.from_numpy(data[i : i + block].astype(np.int64)) for i in ix])
    y = torch.stack([torch.from_numpy(data[i + 1 : i + 1 + block].astype(np.int64)) for i in ix])
    return x.pin_memory().to(device, non_blocking=True), y.pin_memory().to(device, non_blocking=True)


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(50, width), nn.Embedding(block, width)
        self.block = nn.TransformerEncoderLayer(width, 2, 16, batch_first=True)
        self.head = nn.Linear(width, 50)

    def forward(self, idx, targets):
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1), device=idx.device))
        return F.cross_entropy(self.head(self.block(x)).flatten(0, 1), targets.flatten())


@torch.no_grad()
def estimate_loss():
    losses = torch.zeros(5)
    for k in range(5):
        losses[k] = model(*get_batch()).item()
    return losses.mean()


model = GPT().to(device)
optimizer = torch.optim.AdamW(model.parameters())
x, y = get_batch()
for iteration in range(12):
    if iteration % 5 == 0:
        print(estimate_loss())
    for micro_step in range(3):
        loss = model(x, y) / 3
        x, y = get_batch()
        loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
"""

TRAINER = """\
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

size = dict(n_layer=1, n_embd=16, n_head=2, vocab_size=50, n_positions=16, bos_token_id=0, eos_token_id=0)
samples = [{"input_ids": torch.randint(0, 50, (16,)), "labels": torch.randint(0, 50, (16,))} for _ in range(32)]
arguments = TrainingArguments(
    output_dir="FOLDER", per_device_train_batch_size=4, num_train_epochs=1, report_to=[], save_strategy="no", disable_tqdm=True
)
Trainer(model=GPT2LMHeadModel(GPT2Config(**size)), args=arguments, train_dataset=samples).train()
"""

LIGHTNING = """\
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, TensorDataset


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(256, 4)

    def training_step(self, batch, index):
        x, y = batch
        return torch.nn.functional.cross_entropy(self.layer(x), y)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


loader = DataLoader(TensorDataset(torch.randn(64, 256), torch.randint(0, 4, (64,))), batch_size=8)
quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
pl.Trainer(max_epochs=1, accelerator="gpu", devices=1, **quiet).fit(Model(), loader)
"""


def test_a_loop_by_hand_with_accumulation_and_evaluation(tmp_path: Path) -> None:
    profile = profiled(tmp_path, HAND_WRITTEN)

    step = profile.loops[0]
    assert (step.kind, step.steps) == ("training", 12)
    assert step.nbytes["h2d"] == 3 * 2 * 4 * 16 * 8, "three micro steps of two int64 tensors of 4 × 16"
    assert (step.transfers, step.syncs) == (6, 0)
    assert found(profile) == [], "the evaluation reads its losses now and then"


def test_a_transformers_trainer(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")

    step = profiled(tmp_path, TRAINER.replace("FOLDER", str(tmp_path))).loops[0]

    assert (step.kind, step.steps) == ("training", 8)
    assert step.nbytes["h2d"] == 2 * 4 * 16 * 8, "ids and labels: int64, 4 × 16"
    assert step.nbytes["d2h"] == 0


def test_a_lightning_run(tmp_path: Path) -> None:
    pytest.importorskip("pytorch_lightning")

    profile = profiled(tmp_path, LIGHTNING)

    step = profile.loops[0]
    assert (step.kind, step.steps) == ("training", 8)
    assert step.nbytes["h2d"] == 8 * 256 * 4 + 8 * 8, "float32 of 8 × 256 and 8 int64 labels"
    # Lightning moves with `non_blocking`; the loader that was handed to it does not pin.
    assert [rule for rule, _ in found(profile)] == ["unpinned-non-blocking"]
