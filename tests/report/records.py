"""Hand-made outcomes that the tests of the renderers share, and the sources they speak of."""

from collections.abc import Sequence

from samedevice.model.diagnostic import (
    Confidence,
    Diagnostic,
    Evidence,
    Location,
    Raised,
    Severity,
    TensorFact,
)
from samedevice.model.fix import Applicability, Edit, Fix, Point
from samedevice.model.outcome import Outcome

MODEL = """\
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, length):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)

        self.mask = torch.tril(torch.ones(length, length))

    def forward(self, x):
        scores = self.query(x) @ self.key(x).transpose(-2, -1)
        scores = scores.masked_fill(self.mask == 0, float("-inf"))
        return scores.softmax(-1) @ self.value(x)
"""

TRAIN = """\
device = "cuda"
model = Attention(64, 128)
model.to(device)
for inputs, labels in loader:
    logits = model(inputs.to(device))
    loss = criterion(
        logits.flatten(0, 1),
        labels.flatten(),
    )
    loss.backward()
"""

SOURCES = {
    "model.py": MODEL,
    "train.py": TRAIN,
    "src/long.py": "x = 1\n" * 2 + "\ttotal = " + "alpha + " * 14 + "omega\n",
}


def read(path: str, cell: int | None) -> Sequence[str] | None:
    """Source lines without files."""
    return SOURCES[path].splitlines() if path in SOURCES else None


MESSAGE = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"

UNREGISTERED = Diagnostic(
    rule="unregistered-tensor",
    severity=Severity.ERROR,
    confidence=Confidence.CERTAIN,
    message="`self.mask` stays on cpu when the model moves to cuda:0: it is a plain attribute, not a buffer",
    location=Location("model.py", 12, 9, 12, 58),
    raised=Raised(Location("model.py", 16, 18, 16, 67), "RuntimeError", MESSAGE, 12),
    tensors=(
        TensorFact("scores", "cuda:0", None, (8, 128, 128), "float32", Location("model.py", 15, 18)),
        TensorFact(
            "self.mask == 0", "cpu", "Attention.mask", (128, 128), "bool", Location("model.py", 12, 9), True
        ),
    ),
    evidence=(
        Evidence(Location("model.py", 12, 9), "`self.mask` is created on cpu and kept as a plain attribute"),
        Evidence(Location("train.py", 3, 1), "the model moves to cuda:0; plain attributes stay behind"),
        Evidence(Location("model.py", 16, 18), "`scores` on cuda:0 meets `self.mask == 0` on cpu"),
    ),
    help="register it as a buffer, then it moves with the model",
    lesson="`Module.to` moves parameters and registered buffers. A plain attribute stays where it was made.",
    suggestion='self.register_buffer("mask", torch.tril(torch.ones(length, length)), persistent=False)',
    fix=Fix(
        "Register `mask` as a buffer",
        Applicability.UNSAFE,
        (
            Edit("model.py", Point(12, 9), Point(12, 21), 'self.register_buffer("mask", '),
            Edit("model.py", Point(12, 58), Point(12, 58), ", persistent=False)"),
        ),
    ),
    count=12,
)

TARGET = Diagnostic(
    rule="target-not-moved",
    severity=Severity.ERROR,
    confidence=Confidence.LIKELY,
    message="`labels` of the batch stays on cpu while the inputs move to cuda:0",
    location=Location("train.py", 6, 12, 9, 6),
    raised=Raised(Location("train.py", 6, 12, 9, 6), "RuntimeError", MESSAGE, 2),
    tensors=(
        TensorFact("logits.flatten(0, 1)", "cuda:0", shape=(1024, 10), dtype="float32"),
        TensorFact("labels.flatten()", "cpu", shape=(1024,), dtype="int64", at_fault=True),
    ),
    help="move every part of the batch at the head of the loop",
    suggestion="for inputs, labels in loader:\n    inputs, labels = inputs.to(device), labels.to(device)",
    notes=("`loader` yields tensors on cpu, whatever the model is on",),
    count=2,
    ranks=(0, 2),
)

PERFORMANCE = Diagnostic(
    rule="create-then-move",
    severity=Severity.WARNING,
    confidence=Confidence.POSSIBLE,
    message="`total` is made on cpu and copied; make it on the device",
    location=Location("src/long.py", 3, 98, 3, 103),
)

CHECKED = Outcome(
    "check",
    (UNREGISTERED, TARGET),
    virtual_gpus=1,
    program="finished",
    notes=("`torch.compile` ran the model eagerly",),
)
LINTED = Outcome("lint", (UNREGISTERED, PERFORMANCE), files=3, suppressed=1)
CLEAN = Outcome("check", virtual_gpus=2, program="finished")
EMPTY_LINT = Outcome("lint", files=12)
ENDED = Outcome("check", virtual_gpus=1, program="raised ValueError: no such split: 'tets'")
