"""The hook: the program's own traceback, hooks and exit status stay; the explanation comes after."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

#: stands in for torch where only its presence matters: two seconds less for each process
STUB = """\
class Tensor: pass
class nn:
    class Module: pass
class optim:
    class Optimizer: pass
"""

MESSAGE = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"


@pytest.fixture
def run(tmp_path: Path):
    """Run a script in a folder with a stand-in for torch; `words` before it."""
    (tmp_path / "torch.py").write_text(STUB, encoding="utf-8")

    def start(source: str, *words: str, args: tuple[str, ...] = (), **environment: str):
        script = tmp_path / "program.py"
        script.write_text(source, encoding="utf-8")
        keep = {
            k: v
            for k, v in os.environ.items()
            if k not in ("SAMEDEVICE", "RANK", "WORLD_SIZE", "LANG", "LC_ALL")
        }
        return subprocess.run(
            [sys.executable, *words, "program.py", *args],
            cwd=tmp_path,
            env={**keep, **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return start


RUN = ("-m", "samedevice", "run")
CRASH = f"import torch\ndef f(a):\n    raise RuntimeError({MESSAGE!r})\nf(1)\n"


@pytest.mark.parametrize(
    "source",
    [
        "print('out', __name__, __file__[-10:], __spec__)\nimport sys; print(sys.argv)\n",
        "raise ValueError('no device in it')\n",
        "import sys; sys.exit(7)\n",
        "import sys; sys.exit('last words')\n",
        "raise SystemExit\n",
        "def f():\n    try:\n        1 / 0\n    except ZeroDivisionError as e:\n        raise KeyError(2) from e\nf()\n",
        "import atexit; atexit.register(print, 'bye'); 1 / 0\n",
        "import threading\nt = threading.Thread(target=lambda: 1 / 0)\nt.start(); t.join(); print('on')\n",
        "import os; os._exit(5)\n",
    ],
    ids=["finishes", "other error", "status", "exit text", "bare exit", "chain", "atexit", "thread", "hard exit"],
)  # fmt: skip
def test_a_program_without_a_device_error_is_as_under_python(run, source: str) -> None:
    plain, ours = run(source, args=("--x", "1")), run(source, *RUN, args=("--x", "1"))

    assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout)
    assert ours.stderr.replace(" 0x", "") == plain.stderr.replace(" 0x", "")


def test_the_explanation_comes_after_an_unchanged_traceback(run) -> None:
    plain, ours = run(CRASH), run(CRASH, *RUN)

    assert ours.returncode == plain.returncode == 1
    assert ours.stderr.startswith(plain.stderr)
    assert "samedevice: why this happened" in ours.stderr[len(plain.stderr) :]


def test_an_interrupt_ends_the_process_by_the_signal(run) -> None:
    source = "import atexit; atexit.register(print, 'bye')\nraise KeyboardInterrupt\n"
    plain, ours = run(source), run(source, *RUN)

    assert (ours.returncode, ours.stdout, ours.stderr) == (plain.returncode, plain.stdout, plain.stderr)


def test_torch_is_not_imported_for_the_program(run) -> None:
    done = run("import sys; print('torch' in sys.modules, 'samedevice.live.search' in sys.modules)\n", *RUN)

    assert done.stdout == "False False\n"


def test_a_module_is_run_with_m(run, tmp_path: Path) -> None:
    run("print(__name__, __package__)\nimport sys; print(sys.argv[1:])\n")
    done = subprocess.run(
        [sys.executable, *RUN, "-m", "program", "--lr", "3"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout == "__main__ \n['--lr', '3']\n"


def test_a_hook_of_the_program_stays_in_charge_and_gets_a_note(run) -> None:
    source = f"""\
import sys, torch, samedevice
def mine(kind, error, tb):
    print("mine:", kind.__name__, [n[:10] for n in getattr(error, "__notes__", [])])
sys.excepthook = mine
samedevice.install()
raise RuntimeError({MESSAGE!r})
"""
    done = run(source)

    assert done.returncode == 1
    assert done.stdout == "mine: RuntimeError ['samedevice']\n"
    assert "why this happened" in done.stderr and "Traceback" not in done.stderr


def test_a_hook_that_the_program_sets_later_does_not_lose_the_explanation_under_run(run) -> None:
    source = (
        f"import sys, torch\nsys.excepthook = lambda *a: print('mine')\nraise RuntimeError({MESSAGE!r})\n"
    )
    done = run(source, *RUN)

    assert done.stdout == "mine\n"
    assert done.stderr.count("why this happened") == 1


def test_threads_are_explained(run) -> None:
    source = f"""\
import threading, torch, samedevice
samedevice.install()
def work():
    raise RuntimeError({MESSAGE!r})
t = threading.Thread(target=work, name="worker")
t.start(); t.join(); print("on")
"""
    done = run(source)

    assert (done.returncode, done.stdout) == (0, "on\n")
    assert done.stderr.index("Exception in thread worker") < done.stderr.index("why this happened")


def test_installing_twice_and_taking_it_back_leaves_no_trace(run) -> None:
    source = """\
import sys, threading, samedevice
from samedevice import crash
before = sys.excepthook, threading.excepthook, sys.unraisablehook
samedevice.install(); samedevice.install()
crash.uninstall()
print(before == (sys.excepthook, threading.excepthook, sys.unraisablehook))
"""
    assert run(source).stdout == "True\n"


def test_each_rank_says_which_it_is(run) -> None:
    done = run(CRASH, *RUN, RANK="3", WORLD_SIZE="8")

    assert "why this happened (rank 3)" in done.stderr


def test_the_locale_chooses_german(run) -> None:
    assert "warum das geschah" in run(CRASH, *RUN, LANG="de_DE.UTF-8").stderr
    assert "warum das geschah" in run(CRASH, *RUN, "--lang", "de").stderr


def test_a_report_is_written_when_asked(run, tmp_path: Path) -> None:
    import json

    done = run(CRASH, *RUN, "--format", "json", "--output", "report.json")
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))

    assert done.returncode == 1
    assert (report["command"], report["summary"]["problems"]) == ("run", 1)
    assert report["summary"]["program"].startswith("raised RuntimeError: Expected all tensors")


def test_a_closed_standard_error_is_survived(run) -> None:
    done = run(f"import os, sys, torch\nsys.stderr.close()\nraise RuntimeError({MESSAGE!r})\n", *RUN)

    assert done.returncode == 1


def test_a_broken_tensor_class_does_not_bring_a_second_crash(run) -> None:
    source = f"""\
import torch
class Odd(torch.Tensor):
    def __getattribute__(self, name):
        raise MemoryError("nothing works here")
x = Odd()
def f(a):
    raise RuntimeError({MESSAGE!r})
f(x + 1 if False else x)
"""
    done = run(source, *RUN)

    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("missing.py",), "there is no file `missing.py`"),
        ((), "name the program to run"),
        (("--lang", "fr", "x.py"), "invalid choice"),
        (("--output", "no/folder/x.json", "program.py"), "there is no folder"),
    ],
)
def test_bad_use_is_told_with_status_2(
    words: tuple[str, ...], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from samedevice.cli import main

    assert main(["run", *words]) == 2
    assert complaint in capsys.readouterr().err
