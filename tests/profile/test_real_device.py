"""The recorder of real devices, with `meta` standing in for the accelerator."""

import itertools
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from samedevice.model.errors import UserError  # noqa: E402
from samedevice.profile.cost import cost_model  # noqa: E402
from samedevice.profile.findings import diagnostics  # noqa: E402
from samedevice.profile.real import RealDevice  # noqa: E402
from samedevice.profile.recorder import Recorder  # noqa: E402
from samedevice.profile.stacks import stack  # noqa: E402
from samedevice.profile.summary import Profile, summarise  # noqa: E402

pytestmark = pytest.mark.torch

PROGRAM = """\
import torch
from torch.utils.data import DataLoader, TensorDataset

model = torch.nn.Linear(64, 4).to("meta")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(40, 64), torch.zeros(40)), batch_size=8)
scale = torch.ones(4)
for x, y in loader:
    x = x.to("meta", non_blocking=True)
    out = model(x) * scale.to("meta")
    hidden = torch.zeros(8, 4).to("meta")
    hidden.copy_(torch.ones(8, 4))
    out.sum().backward()
    optimizer.step()
"""


def recorded(folder: Path, source: str) -> Recorder:
    path = folder / "program.py"
    path.write_text(source, encoding="utf-8")
    clock = itertools.count()
    recorder = Recorder(lambda: float(next(clock)), stack)
    with RealDevice(recorder, kinds=("meta",), measure=False).attached():
        exec(compile(source, str(path), "exec"), {"__name__": "__main__"})
    return recorder


def by_line(profile: Profile) -> dict[int, Any]:
    return {t.location.line: t for t in profile.traffic}


def test_copies_are_recorded_with_their_step_loop(tmp_path: Path) -> None:
    profile = summarise(recorded(tmp_path, PROGRAM), cost_model())

    lines = by_line(profile)
    assert lines[4].of_module and lines[4].count == 2
    assert (
        lines[9].count == 5 and lines[9].nbytes == 40 * 64 * 4 and lines[9].non_blocking and lines[9].pageable
    )
    assert lines[10].unchanged == 4 and lines[11].unchanged == 0
    assert lines[12].function == "Tensor.copy_" and lines[12].count == 5
    assert {t.steps for t in profile.traffic if t.location.line > 8} == {5}
    assert profile.loops[0].kind == "training" and profile.loops[0].nbytes["h2d"] == 8 * 64 * 4 + 16 + 2 * 128


def test_the_rules_of_cost_read_it(tmp_path: Path) -> None:
    profile = summarise(recorded(tmp_path, PROGRAM), cost_model())

    found = {(d.rule, d.location.line) for d in diagnostics(profile.by_caller)}
    assert ("transfer-in-loop", 10) in found and ("create-then-move", 11) in found


def test_everything_is_undone(tmp_path: Path) -> None:
    before = (torch.utils.data.DataLoader.__init__, torch._tensor_str._str, torch.cuda.synchronize)

    recorded(tmp_path, PROGRAM)

    assert before == (torch.utils.data.DataLoader.__init__, torch._tensor_str._str, torch.cuda.synchronize)
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None


def test_without_an_accelerator_the_way_out_is_named() -> None:
    if torch.accelerator.is_available():
        pytest.skip("there is one")
    with pytest.raises(UserError, match="leave it out to run on virtual GPUs"):
        RealDevice(Recorder(lambda: 0.0, stack))
