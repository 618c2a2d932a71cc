"""Processes that a program starts have its virtual GPUs, and what they find is reported with the rest."""

import os
import subprocess
import sys

import pytest
from launched import ENVIRONMENT, INSTALLED, check, found

pytest.importorskip("torch")

from samedevice.processes import standing

pytestmark = pytest.mark.torch

PROGRAM = """\
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor

import torch
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, Dataset


def spawned(rank):
    torch.ones(2, device="cuda") + torch.ones(3)[:2]


def pooled(number):
    torch.ones(2, device="cuda:1") + torch.ones(4)[:2]
    return torch.cuda.device_count()


class Mixes(Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, i):
        return (torch.ones(2, device="cuda") + torch.ones(2)).cpu()


class OnGpu(Mixes):
    def __getitem__(self, i):
        return torch.ones(2, device="cuda")


def late():
    torch.full((2,), 1.0, device="cuda")


def echo(inbox, outbox):
    while (item := inbox.get()) is not None:
        outbox.put((str(item.device), item.detach() * 2))
        del item


if __name__ == "__main__":
    for batch in DataLoader(Mixes(), num_workers=1):
        print("forked before CUDA was used:", batch.device, flush=True)
    pid = os.fork()
    if pid == 0:
        torch.zeros(2, device="cuda") + torch.zeros(2)
        print("a copy", flush=True)
        sys.exit(3)
    print("the copy ended with", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    torch.ones(1).cuda()
    try:
        next(iter(DataLoader(OnGpu(), num_workers=1)))
    except RuntimeError as error:
        print("forked after it:", "Cannot re-initialize CUDA in forked subprocess" in str(error))
    late_fork = multiprocessing.get_context("fork").Process(target=late)
    late_fork.start()
    late_fork.join()
    print("died of it:", late_fork.exitcode)
    mp.spawn(spawned, nprocs=1)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        print("pool:", pool.submit(pooled, 1).result())
    with multiprocessing.get_context("forkserver").Pool(1) as pool:
        print("server:", pool.map(pooled, [1]))
    ways = mp.get_context("spawn")
    there, back = ways.Queue(), ways.Queue()
    process = ways.Process(target=echo, args=(there, back))
    process.start()
    for sent in (torch.ones(2, device="cuda:1"), torch.ones(2), torch.nn.Parameter(torch.ones(2).cuda())):
        there.put(sent)
        device, doubled = back.get()
        print("queue:", device, doubled.device, doubled.tolist())
        del doubled
    there.put(None)
    process.join()
"""

PRINTED = [
    "forked before CUDA was used: cpu",
    "forked before CUDA was used: cpu",
    "a copy",
    "the copy ended with 3",
    "forked after it: True",
    "died of it: 1",
    "pool: 2",
    "server: [2]",
    "queue: cuda:1 cuda:1 [2.0, 2.0]",
    "queue: cpu cpu [2.0, 2.0]",
    "queue: cuda:0 cuda:0 [2.0, 2.0]",
]


def test_children_of_each_kind_have_the_gpus_and_tell_what_they_find(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done, report = check(tmp_path, "--gpus", "2", "program.py")

    assert done.stdout.splitlines() == PRINTED, done.stderr
    assert (done.returncode, report["summary"]["program"], report["notes"]) == (1, "finished", [])
    assert found(report, program) == {
        'return (torch.ones(2, device="cuda") + torch.ones(2)).cpu()': (2, [], 1),
        'torch.zeros(2, device="cuda") + torch.zeros(2)': (1, [], 1),
        'torch.ones(2, device="cuda") + torch.ones(3)[:2]': (1, [], 1),
        'torch.ones(2, device="cuda:1") + torch.ones(4)[:2]': (2, [], 2),
        'torch.full((2,), 1.0, device="cuda")': (1, [], 1),
    }


@pytest.mark.skipif(
    not INSTALLED, reason="the file that arms interpreters is not installed beside the package"
)
def test_a_program_started_by_the_program_is_checked_with_it(tmp_path):
    inner = tmp_path / "inner.py"
    inner.write_text(
        "import sys\nassert 'torch' not in sys.modules\nimport torch\n"
        "print(torch.cuda.device_count(), flush=True)\n"
        "torch.ones(2, device='cuda') + torch.ones(2)\n"
        "torch.load('missing.pt')\n"
    )
    outer = "import subprocess, sys\nprint(subprocess.run([sys.executable, 'inner.py']).returncode)\n"
    (tmp_path / "outer.py").write_text(outer)
    done, report = check(tmp_path, "--gpus", "3", "outer.py")

    assert done.stdout.split() == ["3", "1"]
    assert "FileNotFoundError" in done.stderr
    assert found(report, inner) == {"torch.ones(2, device='cuda') + torch.ones(2)": (1, [], 1)}
    assert done.returncode == 1


LIBRARY = """\
import torch
import torch.multiprocessing as mp
from samedevice import virtual_gpus


def mixes(rank):
    torch.ones(2, device="cuda") + torch.ones(2)


def counts(rank):
    assert torch.cuda.device_count() == rank


if __name__ == "__main__":
    with virtual_gpus(2):
        try:
            mp.spawn(mixes, nprocs=1)
        except mp.ProcessRaisedException as error:
            print("raises:", "found at least two devices, cuda:0 and cpu!" in str(error))
    with virtual_gpus(2, "report") as engine:
        mp.spawn(mixes, nprocs=1)
        print("reports:", [d.rule for d in engine.diagnostics()])
    print("afterwards:", [d.location.line for d in engine.diagnostics()])
    mp.spawn(counts, nprocs=1)
"""


def test_children_raise_or_report_as_their_parent_and_only_within_the_block(tmp_path):
    (tmp_path / "library.py").write_text(LIBRARY)
    done = subprocess.run(
        [sys.executable, "library.py"],
        cwd=tmp_path,
        env=ENVIRONMENT | {"CUDA_VISIBLE_DEVICES": "", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )

    assert done.stdout.splitlines() == [
        "raises: True",
        "reports: ['factory-without-device']",
        "afterwards: [7]",
    ], done.stderr
    assert done.returncode == 0
    assert not [name for name in os.listdir(tmp_path) if name.startswith("samedevice")]


HANGS = """\
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor

import torch
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, i):
        if i:
            time.sleep(600)
        return torch.ones(1)


def pooled(number):
    time.sleep(600)


if __name__ == "__main__":
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        future = pool.submit(pooled, 1)
        for batch in DataLoader(Slow(), num_workers=2):
            future.done()
"""


@pytest.mark.skipif(standing.SIGNAL is None, reason="there are no real-time signals here")
def test_children_that_hang_tell_where_they_stood_when_time_is_up(tmp_path):
    (tmp_path / "hangs.py").write_text(HANGS)
    done, report = check(tmp_path, "--time-limit", "4", "hangs.py")
    *places, ended = report["notes"]

    assert [(place.split("`")[0], place.partition(" was stopped at ")[2]) for place in places] == [
        ("process ", "hangs.py:20, `time.sleep(600)`"),
        ("process ", "hangs.py:15, `time.sleep(600)`"),
    ]
    assert ended == "processes of the program that still ran were ended: 3"
    assert (done.returncode, report["summary"]["program"]) == (0, "stopped after 4 s"), done.stderr
