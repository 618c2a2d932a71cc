"""tensorboard writers, progress bars and hyperparameter searches around a program on virtual GPUs."""

from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.frameworks.running import assert_runs_as_on_the_cpu, found, line_of

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize(
    ("example", "package"),
    [("tensorboard_logging", "tensorboard"), ("optuna_search", "optuna")],
    ids=["tensorboard", "optuna"],
)
def test_an_example_prints_the_numbers_of_the_cpu_and_nothing_is_found(example: str, package: str) -> None:
    pytest.importorskip(package)
    assert_runs_as_on_the_cpu(example)


MISTAKES = {
    "an image is given to tensorboard as an array": (
        "numpy-on-gpu",
        "tensorboard",
        """
import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter

model = nn.Conv2d(1, 3, 3).to("cuda")
with SummaryWriter("log") as writer:
    for step in range(2):
        out = model(torch.rand(2, 1, 8, 8).to("cuda")).sigmoid().detach()
        writer.add_scalar("mean", out.mean(), step)
        writer.add_image("first", out[0].numpy(), step)  # mistake
""",
    ),
    "a trial takes the model that trials share back to the CPU": (
        "moved-behind-your-back",
        "optuna",
        """
import functools

import optuna
import torch
from torch import nn

optuna.logging.set_verbosity(optuna.logging.WARNING)
device = torch.device("cuda")
x, y = torch.randn(16, 4, device=device), torch.randn(16, 1, device=device)


@functools.cache
def backbone(width):
    return nn.Linear(4, width).to(device)


def objective(trial):
    body = backbone(trial.suggest_categorical("width", [4]))
    head = nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(head.parameters(), lr=trial.suggest_float("rate", 1e-3, 1e-1))
    for _ in range(2):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(head(body(x)), y)
        loss.backward()
        optimizer.step()
    torch.save(nn.Sequential(body, head).cpu().state_dict(), "best.pt")  # mistake
    return loss.item()


optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0)).optimize(objective, n_trials=2)
""",
    ),
    "a sum for the progress bar begins on the CPU": (
        "accumulator-on-cpu",
        "tqdm",
        """
import torch
from tqdm import tqdm

model = torch.nn.Linear(4, 1).cuda()
total = torch.zeros(1)  # mistake
for step in (bar := tqdm(range(3), disable=True)):
    total += model(torch.rand(2, 4, device="cuda")).mean().detach()
    bar.set_postfix(mean=total.item() / (step + 1))
""",
    ),
}


@pytest.mark.parametrize(("rule", "package", "source"), MISTAKES.values(), ids=MISTAKES)
def test_the_one_mistake_of_a_program_is_found(
    rule: str, package: str, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    diagnostics = found(source, tmp_path)

    assert [(d.rule, d.location.line) for d in diagnostics] == [(rule, line_of(source))]
