"""timm's models, moving averages, mixup and checkpoints on virtual GPUs."""

from pathlib import Path

import pytest

pytest.importorskip("timm", reason="timm needs a torchvision that fits torch")

from tests.frameworks.running import assert_runs_as_on_the_cpu, found, line_of

pytestmark = pytest.mark.torch


def test_the_example_prints_the_numbers_of_the_cpu_and_nothing_is_found() -> None:
    assert_runs_as_on_the_cpu("timm_training")


PROGRAM = """
import timm
import torch
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.utils import ModelEmaV2, ModelEmaV3

model = timm.create_model("resnet10t", num_classes=3, stem_width=8, channels=(8, 8, 16, 16))
images, labels = torch.rand(4, 3, 32, 32), torch.randint(0, 3, (4,))
"""

MISTAKES = {
    "the average is taken of the model before it moves": (
        "copy-left-behind",
        """
average = ModelEmaV3(model)  # mistake
model.cuda()
average.update(model)
""",
    ),
    "the average of an older class is taken before the model moves": (
        "copy-left-behind",
        """
average = ModelEmaV2(model)  # mistake
model.to("cuda")
average.update(model)
""",
    ),
    "mixed targets stay where the labels were": (
        "target-not-moved",
        """
model = model.cuda()
images, targets = Mixup(num_classes=3)(images, labels)
loss = SoftTargetCrossEntropy()(model(images.cuda()), targets)  # mistake
""",
    ),
}


@pytest.mark.parametrize(("rule", "more"), MISTAKES.values(), ids=MISTAKES)
def test_the_one_mistake_of_a_program_is_found(rule: str, more: str, tmp_path: Path) -> None:
    source = PROGRAM + more
    diagnostics = found(source, tmp_path)

    assert [(d.rule, d.location.line) for d in diagnostics] == [(rule, line_of(source))]


def test_an_average_kept_on_the_host_on_purpose_is_no_mistake(tmp_path: Path) -> None:
    source = PROGRAM + "average = ModelEmaV2(model, device='cpu')\nmodel.cuda()\naverage.update(model)\n"

    assert found(source, tmp_path) == []
