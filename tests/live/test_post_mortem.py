"""A crash is read from its live frames, or from its text and the sources: the same place, the same rule."""

import traceback
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from programs import PROGRAMS, Program  # noqa: E402

from samedevice import crash  # noqa: E402
from samedevice.live.births import recording  # noqa: E402
from samedevice.live.postmortem import Autopsy, explain_exception, explain_text  # noqa: E402
from samedevice.model.diagnostic import Confidence  # noqa: E402
from samedevice.virtual import virtual_gpus  # noqa: E402

pytestmark = pytest.mark.torch


def crashed(program: str, folder: Path, gpus: int = 1, look=lambda error: error):
    """Run the program as CUDA would, and `look` at its exception while everything is alive."""
    path = folder / "program.py"
    path.write_text(program, encoding="utf-8")
    code = compile(program, str(path), "exec")
    with virtual_gpus(gpus, on_mismatch="raise"):
        try:
            exec(code, {"__name__": "__main__", "__file__": str(path)})
        except Exception as error:
            error.__traceback__ = error.__traceback__.tb_next
            return look(error)
    raise AssertionError("the program did not crash")


@pytest.mark.parametrize("name", PROGRAMS)
def test_live_frames_tell_the_cause(name: str, tmp_path: Path) -> None:
    program: Program = PROGRAMS[name]

    found = crashed(program.source, tmp_path, program.gpus, explain_exception)

    assert isinstance(found, Autopsy) and found.diagnostic is not None
    assert found.diagnostic.rule == program.rule
    assert found.diagnostic.location.line in program.mistakes


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_text_of_the_traceback_and_the_sources_tell_it_too(name: str, tmp_path: Path) -> None:
    program: Program = PROGRAMS[name]

    text = crashed(
        program.source, tmp_path, program.gpus, lambda error: "".join(traceback.format_exception(error))
    )
    found = explain_text(text, [str(tmp_path)])

    assert found is not None and found.diagnostic is not None
    assert found.diagnostic.location.line in program.mistakes
    assert found.diagnostic.confidence is not Confidence.CERTAIN


def test_without_the_sources_no_cause_is_claimed(tmp_path: Path) -> None:
    text = crashed(
        PROGRAMS["attribute"].source, tmp_path, 1, lambda error: "".join(traceback.format_exception(error))
    )
    (tmp_path / "program.py").unlink()
    found = explain_text(text.replace(str(tmp_path), "/gone"), [])

    assert found is not None and found.diagnostic is None
    assert found.error.match.family.name == "elementwise-devices"


def test_sources_of_another_version_are_not_believed(tmp_path: Path) -> None:
    """A file whose lines do not match the traceback would send the reader to a wrong place."""
    program = PROGRAMS["attribute"]
    text = crashed(program.source, tmp_path, 1, lambda error: "".join(traceback.format_exception(error)))
    (tmp_path / "program.py").write_text("\n\n\n" + program.source, encoding="utf-8")
    found = explain_text(text, [str(tmp_path)])

    assert found is not None and found.diagnostic is None


def test_the_operands_show_expression_device_and_shape(tmp_path: Path) -> None:
    found = crashed(PROGRAMS["attribute"].source, tmp_path, 1, explain_exception)

    tensors = {t.expression: t for t in found.diagnostic.tensors}
    assert (tensors["y"].device, tensors["y"].shape, tensors["y"].dtype) == ("cuda:0", (2, 4), "float32")
    assert tensors["self.scale"].at_fault and tensors["self.scale"].owner == "Scaled.scale"


def test_values_and_strings_of_the_program_are_not_shown(tmp_path: Path) -> None:
    secret = "hunter2-token"
    source = f"""\
import torch
password = "{secret}"[:-1] + "n"
weights = torch.full((2,), 31337.0, device="cuda")
key = {{"token": password}}
print(weights + torch.ones(2))
"""
    text = crashed(source, tmp_path, 1, crash.explanation)

    assert "weights" in text
    assert "31337" not in text.replace("torch.full((2,), 31337.0", "")
    assert secret not in text


def test_what_cannot_be_told_is_left_to_the_catalogue(tmp_path: Path) -> None:
    source = """\
import torch
things = [torch.rand(2, device="cuda"), torch.rand(2)]
def pick(i):
    return things[i]
print(eval("pick(0) + pick(1)"))
"""
    text = crashed(source, tmp_path, 1, crash.explanation)

    assert "samedevice run --trace" in text or "error[" in text


def test_an_error_that_is_no_device_error_is_left_alone(tmp_path: Path) -> None:
    assert crashed("import torch\ntorch.ones(2) @ torch.ones(3)\n", tmp_path, 1, crash.explanation) is None


def test_a_device_error_behind_another_exception_is_found(tmp_path: Path) -> None:
    source = (
        PROGRAMS["factory"].source.replace("print(attend(", "try:\n    print(attend(")
        + "except RuntimeError as error:\n    raise ValueError('step 3 failed') from error\n"
    )

    found = crashed(source, tmp_path, 1, explain_exception)

    assert found.diagnostic.rule == "factory-without-device"


def test_a_worker_s_error_is_read_from_the_text_that_came_over(tmp_path: Path) -> None:
    source = """\
import torch
from torch.utils.data import DataLoader, Dataset

class Rows(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return torch.ones(2) + torch.ones(2, device="cuda")

for row in DataLoader(Rows(), num_workers=1):
    print(row)
"""
    found = crashed(source, tmp_path, 1, explain_exception)

    assert found.error.wrapper == "DataLoader worker process 0"


def test_a_fault_of_ours_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr("samedevice.live.postmortem.live_points", lambda traceback: 1 / 0)
    crashed(PROGRAMS["sum"].source, tmp_path, 1, crash.explain_to)

    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "could not be explained (ZeroDivisionError" in err


def test_an_exception_is_explained_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def twice(error: Exception) -> list[bool]:
        return [crash.explain_to(error), crash.explain_to(error)]

    assert crashed(PROGRAMS["sum"].source, tmp_path, 1, twice) == [True, False]
    assert capsys.readouterr().err.count("why this happened") == 1


def test_a_note_goes_with_the_exception(tmp_path: Path) -> None:
    def noted(error: Exception) -> list[str]:
        with pytest.raises(RuntimeError), crash.explained():
            raise error
        return error.__notes__

    (note,) = crashed(PROGRAMS["attribute"].source, tmp_path, 1, noted)
    assert "program.py:7: `self.scale` stays on cpu" in note


def test_a_recorded_run_knows_births_that_reading_does_not(tmp_path: Path) -> None:
    source = """\
import torch

made = {}
exec(compile("made['t'] = __import__('torch').ones(3)", "<string>", "exec"))

def fetch():
    return made["t"]

def use(x):
    t = fetch()
    return x * t

def create():
    made["t"] = torch.rand(3)

create()
print(use(torch.rand(3, device="cuda")))
"""
    path = tmp_path / "program.py"
    path.write_text(source, encoding="utf-8")
    with virtual_gpus(1, on_mismatch="raise"), recording():
        try:
            exec(compile(source, str(path), "exec"), {"__name__": "__main__", "__file__": str(path)})
        except RuntimeError as error:
            error.__traceback__ = error.__traceback__.tb_next
            found = explain_exception(error)

    assert found.diagnostic.location.line == 14
    assert found.diagnostic.rule == "factory-without-device"


def test_german_stories_are_german(tmp_path: Path) -> None:
    text = crashed(PROGRAMS["attribute"].source, tmp_path, 1, lambda e: crash.explanation(e, language="de"))

    assert "warum das geschah" in text
