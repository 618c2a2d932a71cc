"""torchmetrics in loops of one's own on virtual GPUs."""

from pathlib import Path

import pytest

pytest.importorskip("torchmetrics")

from tests.frameworks.running import assert_runs_as_on_the_cpu, found, line_of

pytestmark = pytest.mark.torch


def test_the_example_prints_the_numbers_of_the_cpu_and_nothing_is_found() -> None:
    assert_runs_as_on_the_cpu("torchmetrics_loop")


PROGRAM = """
import torch
from torch import nn
from torchmetrics import Metric, MetricCollection
from torchmetrics.classification import MulticlassAccuracy, MulticlassConfusionMatrix, MulticlassF1Score

model = nn.Linear(4, 3).cuda()
points, labels = torch.randn(8, 4, device="cuda"), torch.randint(0, 3, (8,), device="cuda")
"""

MISTAKES = {
    "a collection is never moved": (
        "metric-state-not-moved",
        """
measures = MetricCollection([MulticlassAccuracy(3), MulticlassF1Score(3)])  # mistake
for _ in range(2):
    measures.update(model(points), labels)
print(measures.compute())
""",
    ),
    "metrics live in a list of a module": (
        "module-in-container",
        """
class Evaluation(nn.Module):
    def __init__(self):
        super().__init__()
        self.measures = [MulticlassAccuracy(3), MulticlassConfusionMatrix(3)]  # mistake

    def forward(self, scores, labels):
        return [measure(scores, labels) for measure in self.measures]


evaluation = Evaluation().cuda()
for _ in range(2):
    evaluation(model(points), labels)
""",
    ),
    "the state of a metric of one's own is not registered": (
        "carried-state",
        """
class Distinct(Metric):
    def __init__(self, classes):
        super().__init__()
        self.seen = torch.zeros(classes, dtype=torch.bool)  # mistake

    def update(self, labels):
        self.seen |= nn.functional.one_hot(labels, len(self.seen)).any(0)

    def compute(self):
        return self.seen.sum()


metric = Distinct(3).to("cuda")
metric.update(labels)
print(metric.compute())
""",
    ),
}


@pytest.mark.parametrize(("rule", "more"), MISTAKES.values(), ids=MISTAKES)
def test_the_one_mistake_of_a_program_is_found(rule: str, more: str, tmp_path: Path) -> None:
    source = PROGRAM + more
    diagnostics = found(source, tmp_path)

    assert [(d.rule, d.location.line) for d in diagnostics] == [(rule, line_of(source))]
