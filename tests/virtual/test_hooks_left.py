"""Torch's own hooks on modules that move tensors: the program's, and those of an installed tool."""

import importlib
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from samedevice.program import files
from tests.virtual.diagnosing import diagnose

pytestmark = pytest.mark.torch

NET = """
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.ReLU()), nn.Linear(4, 2)).to("cuda")
inputs = torch.rand(3, 4, device="cuda")
features = []
"""


def _found(program: str, folder: Path) -> list[tuple[str, int, str]]:
    script = folder / "program.py"
    script.write_text(NET + program, encoding="utf-8")
    return [(d.rule, d.location.line, d.message) for d in diagnose(script)]


def _line(program: str) -> int:
    return next(n for n, line in enumerate((NET + program).splitlines(), 1) if "# mistake" in line)


HOOKS = {
    "a function": (
        """
def collect(module, args, output):
    features.append(output)
    return output.detach().cpu()

model[1].register_forward_hook(collect)  # mistake
model(inputs)
""",
        "the hook `collect` on `model[1]` puts a copy on cpu",
    ),
    "a lambda in a loop": (
        """
for part in model:
    part.register_forward_hook(lambda module, args, output: output.to("cpu"))  # mistake
model(inputs)
""",
        "the hook `<lambda>` on",
    ),
    "a method": (
        """
class Tap:
    def __init__(self, device):
        self.device = device

    def __call__(self, module, args):
        return tuple(value.to(self.device) for value in args)

model[2].register_forward_pre_hook(Tap("cpu"))  # mistake
model(inputs)
""",
        "the hook `__call__` on `model[2]` puts a copy on cpu",
    ),
}


@pytest.mark.parametrize("kind", HOOKS)
def test_a_hook_that_moves_what_it_is_given_is_the_mistake(kind: str, tmp_path: Path) -> None:
    program, message = HOOKS[kind]
    found = _found(program, tmp_path)

    assert [(rule, line) for rule, line, _ in found] == [("tool-hook-left", _line(program))]
    assert message in found[0][2]


def test_what_a_hook_only_keeps_is_another_mistake(tmp_path: Path) -> None:
    program = """
def collect(module, args, output):
    features.append(output.detach().cpu())

model[0].register_forward_hook(collect)
out = model(inputs)
print((features[0] @ model[2].weight.T - out).sum().item())
"""
    (found,) = _found(program, tmp_path)

    assert found[0] != "tool-hook-left"


def test_hooks_that_bring_things_together_are_fine(tmp_path: Path) -> None:
    program = """
def align(module, args):
    return tuple(value.to(next(module.parameters()).device) for value in args)

model[0].register_forward_pre_hook(align)
handle = model[1].register_forward_hook(lambda module, args, output: output.cpu())
handle.remove()
model[0].register_forward_hook(lambda module, args, output: features.append(output.cpu()))
print(model(inputs.cpu()).sum().item(), features[0].device.type)
"""
    assert _found(program, tmp_path) == []


TOOL = '''
"""Counts what flows through a model."""

import torch


def count(module, args, output):
    module.seen += torch.full(output.shape[-1:], 1.0)


def watch(model):
    for part in model.children():
        part.register_buffer("seen", torch.zeros(4))
        part.register_forward_hook(count)
'''


def test_a_hook_of_a_tool_that_mixes_devices_is_found_where_the_tool_was_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "installed"
    (installed / "flowcounter").mkdir(parents=True)
    (installed / "flowcounter" / "__init__.py").write_text(TOOL, encoding="utf-8")
    files.kind_of(__file__)
    ours, packages, standard = files._cached_folders or ((), (), ())
    monkeypatch.setattr(files, "_cached_folders", (ours, (*packages, f"{installed}/"), standard))
    monkeypatch.syspath_prepend(str(installed))
    importlib.import_module("flowcounter")
    try:
        program = """
import flowcounter

body = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
flowcounter.watch(body)  # mistake
body.to("cuda")
body(inputs)
"""
        (found,) = _found(program, tmp_path)
    finally:
        del sys.modules["flowcounter"]

    assert found[:2] == ("tool-hook-left", _line(program))
    assert found[2].startswith("the hook `count` of flowcounter, still registered on `body[0]`")


def test_a_hook_that_brings_inputs_to_its_own_module_is_not_to_blame(tmp_path: Path) -> None:
    program = """
def align(device):
    def hook(module, args):
        return tuple(a.to(device) for a in args)
    return hook

for part, device in zip(model, ("cuda:0", "cuda:1", "cuda:0")):
    part.to(device).register_forward_pre_hook(align(device))
print(inputs + model[1](inputs))
"""
    script = tmp_path / "program.py"
    script.write_text(NET + program, encoding="utf-8")
    assert "tool-hook-left" not in [d.rule for d in diagnose(script, gpus=2)]
    assert len(diagnose(script, gpus=2)) == 1
