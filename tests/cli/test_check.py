"""`samedevice check` runs a program as python does, and tells problems from other failures."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

pytestmark = pytest.mark.torch

MISMATCH = """\
import torch
a = torch.ones(2).cuda()
b = torch.ones(2)
print((a + b).tolist())
"""


def check(folder: Path, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run `samedevice check WORDS` in `folder`."""
    more.setdefault("stdin", subprocess.DEVNULL)
    if "input" in more:
        del more["stdin"]
    environment = {**os.environ, "NO_COLOR": "1", **more.pop("env", {})}
    return subprocess.run(  # noqa: PLW1510 - the status is what the tests look at
        [sys.executable, "-m", "samedevice", "check", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
        env=environment,
        **more,
    )


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return name


def test_the_program_runs_as_under_python(tmp_path: Path) -> None:
    write(
        tmp_path,
        "scripts/main.py",
        "import atexit, sys, threading, time, warnings\n"
        "import beside, torch\n"
        "print(sys.argv, __name__, sys.path[0] == str(beside.HERE), sys.modules['__main__'].__file__ == __file__)\n"
        "atexit.register(lambda: print('at exit', torch.cuda.device_count()))\n"
        "threading.Thread(target=lambda: (time.sleep(0.1), print('thread', torch.ones(1).cuda().device))).start()\n"
        "print('read', input())\n"
        "warnings.warn('said once', DeprecationWarning)\n"
        "print('last line')\n",
    )
    write(tmp_path, "scripts/beside.py", "from pathlib import Path\nHERE = Path(__file__).resolve().parent\n")
    done = check(tmp_path, "--gpus", "2", "scripts/main.py", "--gpus", "9", input="words\n")

    assert done.stdout.splitlines() == [
        "['scripts/main.py', '--gpus', '9'] __main__ True True",
        "read words",
        "last line",
        "thread cuda:0",
        "at exit 2",
    ]
    assert "DeprecationWarning: said once" in done.stderr
    assert "all clear" in done.stderr
    assert done.returncode == 0


def test_a_module_runs_with_its_relative_imports(tmp_path: Path) -> None:
    write(tmp_path, "package/__init__.py", "")
    write(tmp_path, "package/values.py", "ANSWER = 42\n")
    write(
        tmp_path,
        "package/train.py",
        "import sys\nfrom .values import ANSWER\nprint(ANSWER, __package__, __spec__.name, sys.argv[1:])\n",
    )
    done = check(tmp_path, "-m", "package.train", "-m", "x")

    assert done.stdout == "42 package package.train ['-m', 'x']\n"
    assert done.returncode == 0


def test_a_mismatch_is_reported_and_the_run_goes_on(tmp_path: Path) -> None:
    write(tmp_path, "mix.py", MISMATCH)
    done = check(tmp_path, "--format", "json", "--output", "report.json", "mix.py")
    report = json.loads((tmp_path / "report.json").read_text())

    assert done.stdout == "[2.0, 2.0]\n"
    assert done.returncode == 1
    summary = report["summary"]
    assert (summary["problems"], summary["occurrences"], summary["program"]) == (1, 1, "finished")
    assert summary["virtual_gpus"] == 1
    (problem,) = report["diagnostics"]
    assert problem["location"]["line"] == 3
    assert problem["raised"]["line"] == 4
    assert problem["raised"]["message"].endswith("found at least two devices, cuda:0 and cpu!")


def test_on_mismatch_raise_ends_the_program_as_cuda_would(tmp_path: Path) -> None:
    write(tmp_path, "mix.py", MISMATCH)
    done = check(tmp_path, "--on-mismatch", "raise", "mix.py")

    assert done.stdout == ""
    assert f'File "{tmp_path / "mix.py"}", line 4, in <module>' in done.stderr
    assert "RuntimeError: Expected all tensors to be on the same device" in done.stderr
    assert "samedevice/virtual" not in done.stderr, "the traceback is the program's own"
    assert done.returncode == 1


def test_another_failure_shows_the_programs_own_traceback(tmp_path: Path) -> None:
    script = write(tmp_path, "fails.py", MISMATCH + "\ndef f(x):\n    return x.view(7)\n\nf(a)\n")
    done = check(tmp_path, script)
    trace = done.stderr[done.stderr.index("Traceback") : done.stderr.index("RuntimeError")]

    assert trace.count("File ") == 2, trace
    assert "shape '[7]' is invalid for input of size 2" in done.stderr
    assert "mix" not in done.stderr and "fails.py:3" in done.stderr, "what was found up to there is reported"
    assert done.returncode == 2


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        ("import sys; sys.exit(0)", 0, "all clear"),
        ("import sys; sys.exit(3)", 2, "exited with\nstatus 3"),
        ("import sys; sys.exit('goodbye')", 2, "goodbye"),
        ("import nowhere_to_be_found", 2, "needs the package `nowhere_to_be_found`"),
        ("import torch; torch.ones(1, device='cuda:3')", 2, "try `--gpus 4`"),
        ("def (:", 2, "is not valid Python"),
        ("x = '\0'", 2, "is not valid Python"),
    ],
)
def test_how_the_program_ended(tmp_path: Path, text: str, status: int, words: str) -> None:
    script = write(tmp_path, "program.py", text)
    done = check(tmp_path, script)

    assert words in done.stderr
    assert done.returncode == status


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name the program to run"),
        (["missing.py"], "there is no file `missing.py`"),
        (["-m", "missing_module"], "cannot run `-m missing_module`"),
        (["-m"], "`-m` needs a module's name"),
        (["--gpus", "0", "x.py"], "is not a whole number above 0"),
        (["--gpu-memory", "lots", "x.py"], "is not a size"),
        (["--wrong", "x.py"], "--wrong"),
        (["."], "there is no `__main__.py`"),
    ],
)
def test_bad_usage_is_one_clear_sentence(tmp_path: Path, words: list[str], said: str) -> None:
    done = check(tmp_path, *words)

    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == 2


def test_a_report_that_cannot_be_written_is_said_before_the_run(tmp_path: Path) -> None:
    write(tmp_path, "mix.py", MISMATCH)
    done = check(tmp_path, "--output", "nowhere/report.txt", "mix.py")

    assert "cannot write" in done.stderr
    assert done.stdout == "", "nothing ran"
    assert done.returncode == 2


def test_max_batches_ends_each_pass_over_a_loader(tmp_path: Path) -> None:
    script = write(
        tmp_path,
        "loop.py",
        "import torch\n"
        "from torch.utils.data import DataLoader\n"
        "loader = DataLoader(torch.arange(40.0), batch_size=4, num_workers=0)\n"
        "print([sum(1 for _ in loader) for epoch in range(3)])\n",
    )

    assert check(tmp_path, "--max-batches", "2", script).stdout == "[2, 2, 2]\n"
    assert check(tmp_path, script).stdout == "[10, 10, 10]\n"


def test_a_time_limit_ends_an_endless_program_and_reports(tmp_path: Path) -> None:
    script = write(tmp_path, "endless.py", MISMATCH + "import time\nwhile True:\n    time.sleep(0.01)\n")
    done = check(tmp_path, "--time-limit", "1", script)

    assert "stopped after 1 s" in done.stderr
    assert "endless.py:3" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == 1


def test_ctrl_c_shows_what_was_found_so_far(tmp_path: Path) -> None:
    script = write(
        tmp_path,
        "waits.py",
        MISMATCH + "print('ready', flush=True)\nimport time\nwhile True:\n    time.sleep(0.01)\n",
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "samedevice", "check", script],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell's background jobs ignore the signal, and hand that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509 - no threads
    )
    assert process.stdout is not None
    while "ready" not in process.stdout.readline():
        time.sleep(0)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=120)

    assert "KeyboardInterrupt" in stderr
    assert "waits.py:3" in stderr
    assert process.returncode == 130
