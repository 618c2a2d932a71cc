"""Names that a module took from torch before virtual GPUs were entered."""

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import samedevice  # noqa: E402

pytestmark = pytest.mark.torch


def test_names_taken_before_are_those_of_virtual_gpus_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "taken_before.py").write_text(
        "from torch import Generator, compile, from_numpy as made\n"
        "from torch.cuda import Stream, device_count, is_available, set_rng_state\n"
        "from torch.overrides import has_torch_function\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    module = __import__("taken_before")
    before = dict(vars(module))
    with samedevice.virtual_gpus(2):
        assert module.made is torch.from_numpy
        assert module.Generator("cuda:1").device == torch.device("cuda:1")
        assert module.Stream(device=1).device == torch.device("cuda:1")
        assert (module.is_available(), module.device_count()) == (True, 2)
        assert module.set_rng_state is torch.cuda.set_rng_state
        assert module.has_torch_function is torch.overrides.has_torch_function

    assert vars(module) == before
    del sys.modules["taken_before"]
