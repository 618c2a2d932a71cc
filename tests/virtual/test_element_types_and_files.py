"""Mistakes that end in a word about element types, a file's device, a random state or a kernel."""

from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.virtual.diagnosing import diagnose

pytestmark = pytest.mark.torch

SCALER = """
import torch
model = torch.nn.Linear(2, 2).cuda().half()
scaler = torch.amp.GradScaler("cuda")
scaler.scale(model(torch.ones(1, 2, device="cuda").half()).sum()).backward()
scaler.step(torch.optim.SGD(model.parameters(), lr=0.1))
"""
NORM = """
import torch
norm = torch.nn.LayerNorm(4).cuda()
x = torch.ones(2, 4, device="cuda", dtype=torch.half)
print(norm(x).dtype)
"""
CONVOLUTION = """
import numpy, torch
layer = torch.nn.Conv1d(1, 1, 2).cuda()
layer(torch.from_numpy(numpy.ones((1, 1, 4))).cuda())
"""
FILE = """
import io, torch
file = io.BytesIO()
torch.save(torch.ones(2, device="cuda:0"), file)
torch.load(io.BytesIO(file.getvalue().replace(b"cuda:0", b"cuda:5")))
"""
STATE = """
import io, torch
file = io.BytesIO()
torch.save({"random": torch.get_rng_state()}, file)
file.seek(0)
checkpoint = torch.load(file, map_location="cuda")
torch.set_rng_state(checkpoint["random"])
"""
LEFT = """
import torch
model = torch.nn.Linear(2, 2)
loss = model(torch.ones(1, 2)).sum()
model.cuda()
loss.backward()
torch.optim.SGD(model.parameters(), lr=0.1, foreach=False).step()
"""
HOOK = """
import torch
x = torch.ones(3, device="cuda", requires_grad=True)
x.register_hook(lambda gradient: gradient.cpu())
(x * 2).sum().backward()
"""


@pytest.mark.parametrize(
    ("program", "rule", "line", "words"),
    [
        (SCALER, "dtype-mismatch", 6, "GradScaler is given gradients of float16"),
        (NORM, "dtype-mismatch", 5, "`x`, `norm.weight` of float16 and float32 meet in `norm`"),
        (CONVOLUTION, "dtype-mismatch", 4, "operands of float64 and float32 meet in `layer`"),
        (FILE, "load-without-map-location", 5, "asks for a device that this machine does not have"),
        (STATE, "load-without-map-location", 6, "`map_location` restores it on cuda:0"),
        (HOOK, "cpu-gradient", 4, "the gradient is on cpu, but the tensor it belongs to is on cuda:0"),
    ],
    ids=["scaler", "norm", "convolution", "file", "state", "hook"],
)
def test_is_named(program: str, rule: str, line: int, words: str, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(program)
    (found,) = diagnose(script)

    assert (found.rule, found.location.line) == (rule, line)
    assert words in found.message


def test_a_gradient_that_a_move_left_behind_is_met_by_the_step(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(LEFT)
    found = diagnose(script)

    assert found
    assert {diagnostic.raised.location.line for diagnostic in found if diagnostic.raised is not None} == {7}
