"""pytorch-ignite's engines, metrics and handlers on virtual GPUs."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("ignite")

from tests.frameworks.running import assert_runs_as_on_the_cpu, found, line_of

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def _no_chatter() -> Iterator[None]:
    logging.disable(logging.INFO)
    yield
    logging.disable(logging.NOTSET)


def test_the_example_prints_the_numbers_of_the_cpu_and_nothing_is_found() -> None:
    assert_runs_as_on_the_cpu("ignite_engines")


PROGRAM = """
import torch
from ignite.engine import Engine, Events, create_supervised_evaluator, create_supervised_trainer
from ignite.metrics import Accuracy, Loss, Metric
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda")
loader = DataLoader(TensorDataset(torch.randn(8, 4), torch.randint(0, 3, (8,))), batch_size=4)
model = nn.Linear(4, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""

MISTAKES = {
    "the evaluator is not told the device": (
        "batch-not-moved",
        """
trainer = create_supervised_trainer(model, optimizer, nn.CrossEntropyLoss(), device=device)
evaluator = create_supervised_evaluator(model, {"accuracy": Accuracy()})


@trainer.on(Events.EPOCH_COMPLETED)
def evaluate():
    evaluator.run(loader)  # mistake


trainer.run(loader, max_epochs=1)
""",
    ),
    "an update function of one's own forgets the labels": (
        "target-not-moved",
        """
def update(engine, batch):
    points, labels = batch
    loss = nn.functional.cross_entropy(model(points.to(device)), labels)  # mistake
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


Engine(update).run(loader)
""",
    ),
    "the loss keeps its weights on the CPU": (
        "loss-weight-not-moved",
        """
criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0]))  # mistake
trainer = create_supervised_trainer(model, optimizer, criterion, device=device)
trainer.run(loader, max_epochs=1)
""",
    ),
    "a metric of one's own starts on the CPU": (
        "factory-without-device",
        """
class PerClass(Metric):
    def reset(self):
        self.hits = torch.zeros(3)  # mistake

    def update(self, output):
        scores, labels = output
        self.hits += torch.bincount(labels[scores.argmax(1) == labels], minlength=3)

    def compute(self):
        return self.hits.tolist()


evaluator = create_supervised_evaluator(model, {"hits": PerClass(device=device)}, device=device)
evaluator.run(loader)
""",
    ),
    "an output transform mixes in a table of the host": (
        "factory-without-device",
        """
cost = torch.rand(3)  # mistake


def weighted(output):
    scores, labels = output
    return scores * cost, labels


metrics = {"loss": Loss(nn.functional.cross_entropy, output_transform=weighted, device=device)}
create_supervised_evaluator(model, metrics, device=device).run(loader)
""",
    ),
}


@pytest.mark.parametrize(("rule", "more"), MISTAKES.values(), ids=MISTAKES)
def test_the_one_mistake_of_a_program_is_found(rule: str, more: str, tmp_path: Path) -> None:
    source = PROGRAM + more
    diagnostics = found(source, tmp_path)

    assert [(d.rule, d.location.line) for d in diagnostics] == [(rule, line_of(source))]


def test_nothing_is_found_where_metrics_live_on_the_host(tmp_path: Path) -> None:
    """ignite's metrics take what they accumulate to their own device, the CPU unless told otherwise."""
    source = (
        PROGRAM
        + """
from ignite.handlers import FastaiLRFinder
from ignite.metrics import EpochMetric, Precision, RunningAverage

metrics = {"accuracy": Accuracy(), "precision": Precision(average=True), "loss": Loss(nn.CrossEntropyLoss())}
evaluator = create_supervised_evaluator(model, metrics, device=device, amp_mode="amp")
trainer = create_supervised_trainer(
    model, optimizer, nn.CrossEntropyLoss(), device=device, non_blocking=True, amp_mode="amp", scaler=True
)
RunningAverage(output_transform=lambda loss: loss).attach(trainer, "loss")
EpochMetric(lambda scores, labels: float((scores.argmax(1) == labels).sum())).attach(evaluator, "right")
trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda: evaluator.run(loader))
with FastaiLRFinder().attach(trainer, {"model": model, "optimizer": optimizer}, num_iter=3) as finder:
    finder.run(loader)
trainer.run(loader, max_epochs=2)
print(evaluator.state.metrics)
"""
    )

    assert found(source, tmp_path) == []
