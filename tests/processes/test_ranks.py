"""Programs that a launcher starts in several ranks: one report, and a clear end when one of them fails."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest
from launched import ENVIRONMENT, INSTALLED, check, found

pytest.importorskip("torch")

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]

#: trains in step with the others; rank 1 makes a mistake of its own
PROGRAM = """\
import os
import sys
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, device = dist.get_rank(), torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
weight = torch.ones(4, device=device) * torch.ones(4)
if rank == 1:
    weight = weight + torch.zeros(4)
total = weight.sum().cpu()
dist.all_reduce(total)
how = sys.argv[1] if len(sys.argv) > 1 else ""
print("ready\\n", end="", flush=True)
if how == "dies" and rank == 1:
    raise ValueError("a bad batch")
if how == "hangs" and rank == 1:
    time.sleep(600)
dist.barrier()
print(f"{rank} {dist.get_world_size()} {torch.cuda.device_count()} {total.item()}\\n", end="", flush=True)
dist.destroy_process_group()
"""

BOTH = "weight = torch.ones(4, device=device) * torch.ones(4)"
ONE = "weight = weight + torch.zeros(4)"


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    return path


def test_one_report_tells_what_all_ranks_found(program):
    done, report = check(program.parent, "--nproc-per-node", "2", "train.py")

    assert sorted(done.stdout.splitlines()) == ["0 2 2 8.0", "1 2 2 8.0", "ready", "ready"], done.stderr
    assert found(report, program) == {BOTH: (2, [0, 1], 2), ONE: (1, [1], 1)}
    assert (done.returncode, report["summary"]["program"], report["summary"]["ranks"]) == (1, "finished", 2)
    jsonschema.validate(report, json.loads((ROOT / "docs/schema/report-v1.schema.json").read_text()))


def test_two_nodes_that_torchrun_starts_report_once(program):
    folder = program.parent
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    words = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1"]
    words += ["--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{port}"]
    words += ["--rdzv-id=two", "--local-addr=localhost", "-m", "samedevice", "check", "train.py"]
    environment = ENVIRONMENT | {"TMPDIR": str(folder)}
    nodes = [
        subprocess.Popen(
            words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for _ in range(2)
    ]
    try:
        printed = "".join(node.communicate(timeout=200)[0] for node in nodes)
    finally:
        for node in nodes:
            node.kill()

    assert (
        printed.count("2 problems (3 mismatches) on 1 virtual GPU in 2 ranks; the program finished") == 1
    ), printed
    assert [node.returncode for node in nodes] == [1, 1]
    assert not [name for name in os.listdir(folder) if name.startswith("samedevice")]


def test_a_rank_that_dies_is_named_and_its_traceback_is_its_own(program):
    done, report = check(program.parent, "--nproc-per-node", "2", "train.py", "dies")

    assert report["summary"]["program"] == "raised ValueError: a bad batch in rank 1"
    assert "rank 1 was the first to end; its own traceback is above" in report["notes"]
    assert done.stderr.count("ValueError: a bad batch") == 1
    assert "samedevice/" not in done.stderr.replace(str(ROOT), "")
    assert done.returncode == 2


def test_ranks_that_wait_for_one_another_are_stopped_and_tell_where_they_stood(program):
    done, report = check(program.parent, "--time-limit", "3", "--nproc-per-node", "2", "train.py", "hangs")

    assert report["summary"]["program"] == "stopped after 3 s", done.stderr
    assert report["notes"] == [
        "rank 0 was stopped at train.py:22, `dist.barrier()`",
        "rank 1 was stopped at train.py:21, `time.sleep(600)`",
    ]
    assert done.returncode == 1


def test_an_interrupt_leaves_no_processes(program):
    mark = f"TEST_OF_{os.getpid()}"
    process = subprocess.Popen(
        [sys.executable, "-m", "samedevice", "check", "--nproc-per-node", "2", "train.py", "hangs"],
        cwd=program.parent,
        env=ENVIRONMENT | {mark: "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["ready\n", "ready\n"]
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=100)

    assert "the program interrupted" in told.replace("\n", " ")
    assert process.returncode == 130
    assert marked(mark) == []


def marked(mark: str) -> list[str]:
    """Processes with a variable in their environment, once those that end have ended."""
    found: list[str] = []
    until = time.monotonic() + 10
    while time.monotonic() < until:
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if mark.encode() in (folder / "environ").read_bytes():
                    found.append((folder / "cmdline").read_text())
            except OSError:
                continue  # it has ended, or is somebody else's
        if not found:
            break
    return found


RECORDED = """\
from torch.distributed.elastic.multiprocessing.errors import record


@record
def main():
    raise ValueError("a bad batch")


main()
"""


def test_the_error_file_of_a_rank_is_as_torch_writes_it(tmp_path):
    (tmp_path / "train.py").write_text(RECORDED)
    done = subprocess.run(
        [sys.executable, "-m", "samedevice", "run", "train.py"],
        cwd=tmp_path,
        env=ENVIRONMENT | {"TORCHELASTIC_ERROR_FILE": str(tmp_path / "error.json")},
        capture_output=True,
        text=True,
        check=False,
    )
    message = json.loads((tmp_path / "error.json").read_text())["message"]

    assert done.returncode == 1
    assert message["message"] == "ValueError: a bad batch"
    assert message["extraInfo"]["py_callstack"].count("samedevice/") == 0


def test_fixing_under_torchrun_is_refused_with_the_way_out(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "samedevice", "check", "--fix", "train.py"],
        cwd=tmp_path,
        env=ENVIRONMENT | {"TORCHELASTIC_RUN_ID": "run"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert "use `samedevice check --nproc-per-node N --fix`" in done.stderr


def test_ranks_cannot_share_a_program_from_standard_input(tmp_path):
    done, _ = check(tmp_path, "--nproc-per-node", "2", "-")

    assert done.returncode == 2
    assert "a program from standard input can be read only once" in done.stderr


LAUNCHES_ITSELF = """\
import os
import subprocess
import sys

import torch
import torch.distributed as dist

rank = int(os.environ.get("NODE", "0"))
if rank == 0:
    other = subprocess.Popen([sys.executable, __file__], env={**os.environ, "NODE": "1"})
dist.init_process_group("nccl", init_method=f"file://{os.path.abspath(__file__)}.store", rank=rank, world_size=2)
x = torch.ones(3, device=f"cuda:{rank}")
x + torch.ones(3)
dist.destroy_process_group()
if rank == 0:
    other.wait()
"""


@pytest.mark.skipif(
    not INSTALLED, reason="the file that arms interpreters is not installed beside the package"
)
def test_a_program_that_starts_its_own_ranks_is_told_which_found_what(tmp_path):
    script = tmp_path / "launches.py"
    script.write_text(LAUNCHES_ITSELF)
    _done, report = check(tmp_path, "--gpus", "2", "launches.py")

    assert found(report, script) == {"x + torch.ones(3)": (2, [0, 1], 2)}
