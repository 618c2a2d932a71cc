"""`samedevice check --fix` as a user runs it; the loop itself is tested with a played program."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

pytestmark = pytest.mark.torch

MODEL = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(2))
        self.scale = torch.full((2,), 3.0)

    def forward(self, x):
        return x * self.gain * self.scale
"""

TRAIN = """\
import torch

from pkg.model import Net

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = Net().to(device)
x = torch.ones(2)
x.to(device)  # a copy that nobody keeps
print(net(x).sum().item())
"""


#: a mistake for which there is no edit
LEFT = """\
eval("net(x.to(device)) + torch.ones(2)")  # left
"""


def check(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: PLW1510 - the status is what the tests look at
        [sys.executable, "-m", "samedevice", "check", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=400,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "NO_COLOR": "1", "OMP_NUM_THREADS": "1"},
    )


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "pkg"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "model.py").write_bytes(MODEL.replace("\n", "\r\n").encode())
    (folder / "train.py").write_text(TRAIN)
    return tmp_path


def test_mistakes_in_several_files_of_a_package_are_fixed_and_proven(package: Path) -> None:
    done = check(
        package, "--fix", "--unsafe-fixes", "--format", "json", "--output", "report.json", "-m", "pkg.train"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "6.0\n"  # the first run's, once
    assert "x = x.to(device)  # a copy that nobody keeps\n" in (package / "pkg/train.py").read_text()
    model = (package / "pkg/model.py").read_bytes()
    assert b'self.register_buffer("scale", torch.full((2,), 3.0), persistent=False)\r\n' in model
    assert model.count(b"\n") == model.count(b"\r\n")
    report = json.loads((package / "report.json").read_text())
    assert report["diagnostics"] == []
    assert sorted(one["rule"] for one in report["fixed"]) == ["discarded-move", "unregistered-tensor"]
    assert all(one["fix"]["edits"] for one in report["fixed"])
    assert not list(package.rglob("*.samedevice-new"))


def state(folder: Path) -> dict[Path, tuple[object, ...]]:
    """All that shows whether a file was touched: its contents, its place on the disk, its times."""
    found = {}
    for path in folder.rglob("*"):
        stat = path.stat()
        data = path.read_bytes() if path.is_file() else b""
        found[path] = (data, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_mode, stat.st_nlink)
    return found


def test_a_diff_is_printed_and_nothing_is_written(package: Path) -> None:
    (package / "pkg/train.py").write_text(TRAIN + LEFT)
    (package / "pkg/model.py").chmod(0o444)
    (package / "same.py").hardlink_to(package / "pkg/train.py")
    before = state(package)
    done = check(package, "--diff", "--unsafe-fixes", "-m", "pkg.train")
    assert done.returncode == 1
    assert state(package) == before
    assert "-x.to(device)  # a copy that nobody keeps\n+x = x.to(device)" in done.stdout
    assert "6.0" not in done.stdout  # standard output is the diff alone
    assert "would fix 2 problems in 2 files" in done.stderr
    told = " ".join(done.stderr.split())
    assert "would fix[discarded-move] pkg/train.py:8: Assign the moved copy (proven by run 2)" in told
    assert "would fix[unregistered-tensor] pkg/model.py:9: Register it as a buffer (proven by run 2)" in told
    # What is left is told where the file on the disk has it.
    assert "1 problem on" in told
    assert '10 | eval("net(x.to(device)) + torch' in told


def test_without_leave_for_unsafe_fixes_they_are_only_announced(package: Path) -> None:
    done = check(package, "--fix", "-m", "pkg.train")
    assert done.returncode == 1
    assert (package / "pkg/train.py").read_text() == TRAIN
    assert "--unsafe-fixes would try to fix 2 problems" in " ".join(done.stderr.split())


def test_a_program_that_fails_for_another_reason_is_not_edited(tmp_path: Path) -> None:
    text = "import torch\ntorch.ones(2).cuda() + torch.ones(2)\nraise ValueError('no')\n"
    (tmp_path / "program.py").write_text(text)
    done = check(tmp_path, "--fix", "--unsafe-fixes", "program.py")
    assert done.returncode == 2
    assert "ValueError: no" in done.stderr
    assert (tmp_path / "program.py").read_text() == text


def test_a_program_from_standard_input_cannot_be_fixed(tmp_path: Path) -> None:
    done = check(tmp_path, "--fix", "-")
    assert done.returncode == 2
    assert "cannot be edited" in done.stderr


RANKS = """\
import os
import torch
import torch.distributed as dist

dist.init_process_group("nccl")
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
device = torch.device("cuda", rank)
model = torch.nn.Linear(4, 2).to(device)
x = torch.ones(3, 4)
loss = model(x).sum()
total = torch.tensor(0.5)
dist.all_reduce(total)
if rank == 0:
    print(f"total {total.item():.2f}")
dist.destroy_process_group()
"""


def test_ranks_are_repaired_without_naming_a_gpu_by_its_number(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(RANKS)
    done = check(tmp_path, "--nproc-per-node", "2", "--fix", "--unsafe-fixes", "train.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "total 1.00\n"
    text = (tmp_path / "train.py").read_text()
    assert "x = torch.ones(3, 4, device=device)\n" in text
    assert "total = torch.tensor(0.5, device=device)\n" in text
    assert "fixed[collective-on-wrong-device] train.py:13: Create it on `device`" in done.stderr
    assert "on 2 virtual GPUs in 2 ranks" in done.stderr
