"""`samedevice profile`, `samedevice diff` and the audits of `check`, as a user runs them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from samedevice.cli import main

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

PROGRAM = """\
import torch


def main():
    model = torch.nn.Linear(4, 4).to("cuda")
    model.scale = torch.rand(4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(6):
        scale = model.scale.to("cuda")
        loss = (model(torch.zeros(2, 4, device="cuda")) * scale).sum()
        loss.backward()
        optimizer.step()
    print("done")


if __name__ == "__main__":
    main()
"""


def samedevice(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "samedevice", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, encoding="utf-8", check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the program was profiled before and after it was put right."""
    place = tmp_path_factory.mktemp("profiled")
    (place / "train.py").write_text(PROGRAM, encoding="utf-8")
    right = PROGRAM.replace("torch.rand(4)", 'torch.rand(4, device="cuda")').replace(
        'model.scale.to("cuda")', "model.scale"
    )
    (place / "right.py").write_text(right, encoding="utf-8")
    return place


@pytest.fixture(scope="module")
def before(folder: Path) -> "subprocess.CompletedProcess[str]":
    reports = [
        "--format",
        "json",
        "--output",
        "before.json",
        "--html",
        "page.html",
        "--perfetto",
        "trace.json",
    ]
    return samedevice(folder, "profile", *reports, "--audit", "train.py")


def test_a_cost_is_found_and_every_report_is_written(
    before: "subprocess.CompletedProcess[str]", folder: Path
) -> None:
    report = json.loads((folder / "before.json").read_text(encoding="utf-8"))

    assert before.returncode == 1 and before.stdout == "done\n"
    assert [d["rule"] for d in report["diagnostics"]] == ["transfer-in-loop"]
    assert report["profile"]["loops"][0]["bytes_per_step"]["h2d"] == 16
    assert "model (Linear)" in (folder / "page.html").read_text(encoding="utf-8"), "the variables of main()"
    assert json.loads((folder / "trace.json").read_text(encoding="utf-8"))["traceEvents"]


def test_the_json_report_fits_its_schema(before: "subprocess.CompletedProcess[str]", folder: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = Path(__file__).parents[2] / "docs" / "schema" / "report-v1.schema.json"

    jsonschema.validate(
        json.loads((folder / "before.json").read_text(encoding="utf-8")),
        json.loads(schema.read_text(encoding="utf-8")),
    )


def test_the_audit_shows_the_models_of_main(before: "subprocess.CompletedProcess[str]") -> None:
    assert "audit at the end of `main`" in before.stderr
    assert "! unregistered-tensor: a plain attribute, not a buffer" in before.stderr


def test_a_program_put_right_is_clean_and_diff_tells_the_saving(
    before: "subprocess.CompletedProcess[str]", folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    after = samedevice(folder, "profile", "--format", "json", "--output", "after.json", "right.py")

    status = main(["diff", str(folder / "before.json"), str(folder / "after.json")])

    text = capsys.readouterr().out
    assert after.returncode == 0 and status == 0
    assert "CPU → GPU, number" in text and "−90 µs gone" in text


def test_check_stops_for_an_audit_at_a_line(folder: Path) -> None:
    done = samedevice(folder, "check", "--audit-at", "train.py:8", "--html", "check.html", "train.py")

    assert "audit at train.py:8" in done.stderr and "model (Linear)" in done.stderr
    assert 'id="timeline"' not in (folder / "check.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["profile", "--pcie", "agp", "x.py"], "not a PCIe link"),
        (["profile", "--real", "--max-batches", "2", "x.py"], "virtual GPUs only"),
        (["profile", "nowhere.py"], "there is no file `nowhere.py`"),
        (["profile", "--html", "no/such/page.html", "x.py"], "there is no such folder"),
        (["check", "--audit-at", "train.py", "x.py"], "is not a place"),
        (["check", "--audit-at", "nowhere.py:3", "x.py"], "there is no file `nowhere.py`"),
        (["diff", "a.json", "b.json"], "cannot read `a.json`"),
    ],
)
def test_a_wrong_call_is_told_in_a_sentence(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(words)

    assert status == 2 and message in capsys.readouterr().err


def test_a_file_that_is_no_profile_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"version": 1}', encoding="utf-8")

    assert main(["diff", str(other), str(other)]) == 2
    assert "is not a profile" in capsys.readouterr().err
