"""Going on after a mismatch: the values are the CPU's, consequences are not counted again."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from samedevice import virtual_gpus  # noqa: E402
from samedevice.model.errors import UserError  # noqa: E402

pytestmark = pytest.mark.torch


class Listener:
    """Remembers the refusals it is told of."""

    def __init__(self) -> None:
        self.families: list[str] = []

    def mismatch(self, refusal: Any, frame: Any, engine: Any) -> None:
        self.families.append(refusal.family)

    def diagnostics(self) -> list[Any]:
        return []


@pytest.mark.parametrize("exact", [False, True])
def test_the_run_goes_on_where_the_result_belongs(exact: bool) -> None:
    listener = Listener()
    with virtual_gpus(1, "report", diagnoser=listener, exact=exact):
        total = torch.ones(2, device="cuda") + torch.ones(2)

        assert total.tolist() == [2, 2]
        assert total.is_cuda
        assert (total * torch.ones(2, device="cuda")).is_cuda
    assert len(listener.families) == 1


@pytest.mark.parametrize("exact", [False, True])
def test_the_backward_pass_does_not_repeat_what_the_forward_pass_said(exact: bool) -> None:
    listener = Listener()
    with virtual_gpus(1, "report", diagnoser=listener, exact=exact):
        left = torch.ones(2, 2, requires_grad=True)
        mixed = torch.mm(left, torch.ones(2, 2, device="cuda"))
        said = len(listener.families)
        mixed.sum().backward()

        assert said == 1
        assert len(listener.families) == 1
        assert left.grad is not None


def test_nesting_is_refused() -> None:
    with virtual_gpus(1), pytest.raises(UserError, match="already on"), virtual_gpus(1):
        pass
    with virtual_gpus(1):
        assert torch.cuda.is_available()


@pytest.mark.parametrize(("arguments", "words"), [((0,), "at least one"), ((1, "ignore"), "on_mismatch")])
def test_arguments_that_make_no_sense_are_refused(arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(UserError, match=words), virtual_gpus(*arguments):
        pass


def test_torch_is_usable_after_an_exception_in_the_block() -> None:
    with pytest.raises(ValueError, match="program"), virtual_gpus(1):
        model = nn.Linear(2, 2).cuda()
        raise ValueError("of the program")

    assert str(model.weight.device) == "cpu"
    assert not torch.cuda.is_available()
    assert (model(torch.ones(1, 2)).sum() + torch.ones(1)).shape == (1,)


def test_warnings_of_torch_name_the_programs_line() -> None:
    with virtual_gpus(1), pytest.warns(UserWarning) as caught:
        turned = torch.ones(2, device="cuda").T  # deprecated: torch warns from C++

    assert turned.shape == (2,)
    assert {w.filename for w in caught} == {__file__}


@pytest.mark.parametrize("part", ["build", "recognise"])
def test_a_fault_of_the_diagnosis_hides_no_mismatch(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from samedevice.rules.device_mismatch import DeviceMismatch
    from samedevice.rules.factory_without_device import FactoryWithoutDevice
    from samedevice.virtual.diagnose import Diagnoser
    from samedevice.virtual.scenes import SceneBuilder

    def fails(*args: Any) -> Any:
        raise ZeroDivisionError("of samedevice")

    monkeypatch.delenv("SAMEDEVICE_DEBUG", raising=False)
    owner: Any = SceneBuilder if part == "build" else FactoryWithoutDevice
    monkeypatch.setattr(owner, part, fails)
    diagnoser = Diagnoser()
    with virtual_gpus(1, "report", diagnoser=diagnoser) as engine:
        total = torch.ones(2, device="cuda") + torch.ones(2)
    (diagnostic,) = diagnoser.diagnostics()

    assert total.tolist() == [2, 2]
    assert diagnostic.rule == DeviceMismatch.name
    assert diagnostic.raised is not None
    assert "at least two devices" in diagnostic.raised.message
    assert any("ZeroDivisionError" in note for note in engine.session.notes)


def test_the_block_gives_its_diagnostics_with_edits() -> None:
    with virtual_gpus(1, "report") as engine:
        here = torch.ones(2, device="cuda")
        there = torch.ones(2)
        total = here + there
    (diagnostic,) = engine.diagnostics()

    assert total.tolist() == [2, 2]
    assert diagnostic.rule == "factory-without-device"
    assert diagnostic.fix is not None
    assert diagnostic.fix.edits
