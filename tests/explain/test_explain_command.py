"""`samedevice explain`: inputs, answers, languages, formats, exit statuses."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tracebacks import CPYTHON, MESSAGE, PAIR, prefixed

from samedevice.cli import main

INDEX = "indices should be either on cpu or on the same device as the indexed tensor (cpu)"


@pytest.fixture(autouse=True)
def english(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.setenv(name, "C.UTF-8")
    monkeypatch.chdir(tmp_path)


def explain(*words: str) -> int:
    return main(["explain", *words])


def test_a_message_on_the_command_line_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(INDEX) == 1

    out = capsys.readouterr().out
    assert "what it means" in out
    assert "the *table* never" in " ".join(out.split())
    assert "[unregistered-tensor]" in out
    assert "1 device error found in the message" in out


def test_unquoted_words_are_a_message_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(*INDEX.split()) == 1


def test_a_file_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("job.log").write_text(prefixed(CPYTHON, "[rank0]: ", "[rank1]: "), encoding="utf-8")

    assert explain("job.log") == 1
    out = capsys.readouterr().out
    assert "ranks 0, 1" in out
    assert "/home/u/project/model.py:7" in out
    assert "| return self.fc(x)" in out


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(CPYTHON.encode())))

    assert explain("-") == 1
    assert "train.py:12" in capsys.readouterr().out


def test_german_is_spoken_when_asked_or_by_the_locale(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain("--lang", "de", PAIR) == 1
    asked = capsys.readouterr().out
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert explain(PAIR) == 1

    assert asked == capsys.readouterr().out
    assert "übliche Ursachen" in asked and "usual causes" not in asked


def test_nothing_found_is_said_with_status_0(capsys: pytest.CaptureFixture[str]) -> None:
    Path("fine.log").write_text("epoch 1 loss 0.3\n" * 50, encoding="utf-8")

    assert explain("fine.log") == 0
    assert "no device error found in `fine.log`" in capsys.readouterr().out


def test_json_holds_the_raising_line_and_no_guessed_cause(capsys: pytest.CaptureFixture[str]) -> None:
    Path("job.log").write_text("x\n\n" + CPYTHON, encoding="utf-8")

    assert explain("--format", "json", "--no-sources", "job.log") == 1
    report = json.loads(capsys.readouterr().out)
    assert report["command"] == "explain"
    (found,) = report["diagnostics"]
    assert found["rule"] == "argument-on-other-device"
    assert found["confidence"] == "possible"
    assert found["location"]["path"] == "job.log" and found["location"]["line"] == 16
    assert (found["raised"]["path"], found["raised"]["line"]) == ("/home/u/project/model.py", 7)
    assert found["raised"]["message"] == MESSAGE


@pytest.mark.parametrize("format", ["json", "sarif", "github", "concise"])
def test_every_format_takes_an_explanation(format: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain("--format", format, MESSAGE) == 1
    assert "argument-on-other-device" in capsys.readouterr().out


def test_the_answer_goes_to_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain("--output", "answer.txt", PAIR) == 1

    assert capsys.readouterr().out == ""
    assert "what it means" in Path("answer.txt").read_text(encoding="utf-8")


def test_rarer_causes_are_shown_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    explain(PAIR)
    short = capsys.readouterr().out
    explain("--all", PAIR)

    assert "`--all` shows them" in short
    assert len(capsys.readouterr().out) > len(short)


def test_kin_that_no_move_repairs_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain("RuntimeError: mat1 and mat2 must have the same dtype, but got Float and Half") == 1

    assert "no placement mistake" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["missing.log"], "there is no file `missing.log`"),
        (["."], "is a folder"),
        (["--root", "nowhere", PAIR], "there is no folder `nowhere`"),
        (["--lang", "fr", PAIR], "invalid choice"),
    ],
)
def test_bad_use_is_told_with_status_2(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain(*words) == 2

    captured = capsys.readouterr()
    assert complaint in captured.err
    assert captured.out == ""


def test_lines_keep_to_the_width(capsys: pytest.CaptureFixture[str]) -> None:
    for language in ("en", "de"):
        explain("--all", "--lang", language, MESSAGE)
        for line in capsys.readouterr().out.splitlines():
            assert len(line) <= 80


@pytest.mark.parametrize(
    "code",
    [
        "from samedevice.cli import main; main(['explain', 'CUDA error: invalid device ordinal'])",
        "import samedevice.crash; samedevice.crash.install()",
    ],
    ids=["explain", "hook"],
)
def test_neither_torch_nor_anything_slow_is_imported(code: str) -> None:
    script = f"""
import sys
{code}
print([n for n in ("torch", "rich", "executing", "jinja2", "numpy") if n in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stderr == "[]\n"


def test_sources_give_the_line_of_the_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    Path("model.py").write_text(
        "import torch\n\n\nclass Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.scale = torch.ones(3)\n\n    def forward(self, x):\n        return x * self.scale\n",
        encoding="utf-8",
    )
    Path("train.py").write_text(
        'from model import Net\nimport torch\n\nnet = Net().to("cuda")\nnet(torch.rand(2, 3).to("cuda"))\n',
        encoding="utf-8",
    )
    log = (
        "Traceback (most recent call last):\n"
        '  File "/elsewhere/job/train.py", line 5, in <module>\n    net(torch.rand(2, 3).to("cuda"))\n'
        '  File "/elsewhere/job/model.py", line 10, in forward\n    return x * self.scale\n'
        f"RuntimeError: {PAIR}\n"
    )
    Path("job.log").write_text(log, encoding="utf-8")

    assert explain("--root", ".", "--format", "json", "job.log") == 1
    (found,) = json.loads(capsys.readouterr().out)["diagnostics"]
    assert (found["rule"], found["confidence"]) == ("unregistered-tensor", "likely")
    assert (Path(found["location"]["path"]).name, found["location"]["line"]) == ("model.py", 7)
    assert (Path(found["raised"]["path"]).name, found["raised"]["line"]) == ("model.py", 10)

    assert explain("--root", ".", "--no-sources", "job.log") == 1
    assert "usual causes" in capsys.readouterr().out
