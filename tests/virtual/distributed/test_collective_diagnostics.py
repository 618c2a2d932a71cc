"""What `check` says of collectives and distributed modules in the wrong place."""

import socket
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")

from samedevice.rules import all_rules  # noqa: E402
from samedevice.source.rewriting import apply_edits  # noqa: E402
from tests.virtual.diagnosing import diagnosis  # noqa: E402
from tests.virtual.test_rule_examples import BLOCK  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(not (dist.is_available() and dist.is_gloo_available()), reason="needs gloo"),
]

HEAD = """\
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("nccl")
device = torch.device("cuda", dist.get_rank())
x = torch.ones(8, 4, device=device)
model = torch.nn.Linear(4, 2)
"""

#: program behind HEAD -> (rule, line of the mistake, line that raises, part of the message, line after the fix)
MISTAKES = {
    "total = torch.zeros(1)\ntotal += 3\ndist.all_reduce(total)\n": (
        "collective-on-wrong-device", 10, 10, "`total` is on cpu, but `dist.all_reduce` needs it on",
        (8, "total = torch.zeros(1, device=device)"),
    ),
    "parts = [torch.empty(2)]\ndist.all_gather(parts, torch.tensor([1.0, 2.0]))\n": (
        "collective-on-wrong-device", 9, 9, "needs it on its process's GPU, cuda:0", None,
    ),
    "result = torch.empty(8, 4)\ndist.all_gather_into_tensor(result, x)\n": (
        "collective-on-wrong-device", 9, 9, "`result` is on cpu, but `dist.all_gather_into_tensor`",
        (8, "result = torch.empty(8, 4, device=device)"),
    ),
    "model = DistributedDataParallel(model, device_ids=[0])\nmodel(x).sum().backward()\n": (
        "module-not-moved", 7, 8, "`model` is shared between processes that work on their GPUs",
        (7, "model = torch.nn.Linear(4, 2).to(device)"),
    ),
    "model = DistributedDataParallel(model)\nmodel(x).sum().backward()\n": (
        "module-not-moved", 7, 8, "`model` is shared between processes that work on their GPUs",
        (7, "model = torch.nn.Linear(4, 2).to(device)"),
    ),
}  # fmt: skip

CLEAN = {
    "gloo": HEAD.replace('"nccl"', '"gloo"') + "dist.all_reduce(torch.ones(2))\ndist.all_reduce(x)\n",
    "both": HEAD.replace('"nccl"', '"cpu:gloo,cuda:nccl"') + "dist.all_reduce(torch.ones(2))\ndist.all_reduce(x)\n",
    "moved": HEAD + "model = DistributedDataParallel(model.to(device))\nmodel(x).sum().backward()\n"
    "loss = torch.tensor(1.0, device=device)\ndist.all_reduce(loss)\nprint(loss.item())\n"
    "found = [None]\ndist.all_gather_object(found, x.sum().item())\n",
}  # fmt: skip


@pytest.fixture(autouse=True)
def one_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """What torchrun sets for a process that is alone."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    names = {"RANK": 0, "LOCAL_RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    for name, value in names.items():
        monkeypatch.setenv(name, str(value))


def found_in(folder: Path, text: str) -> tuple[list, tuple]:
    script = folder / "train.py"
    script.write_text(text)
    try:
        return diagnosis(script, 2)
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


@pytest.mark.parametrize("program", MISTAKES, ids=[m[0] + str(i) for i, m in enumerate(MISTAKES.values())])
def test_a_mistake_is_named_at_its_line_and_its_fix_is_clean(program, tmp_path):
    rule, line, raised, words, fixed = MISTAKES[program]

    diagnostics, fixes = found_in(tmp_path, HEAD + program)

    assert [d.rule for d in diagnostics] == [rule]
    assert diagnostics[0].location.line == line
    assert diagnostics[0].raised.location.line == raised
    assert words in diagnostics[0].message
    if fixed is not None:
        mended = apply_edits(HEAD + program, fixes[0][0].edits)
        assert mended.splitlines()[fixed[0] - 1] == fixed[1]
        assert found_in(tmp_path, mended)[0] == []


@pytest.mark.parametrize("name", CLEAN)
def test_tensors_that_their_backend_takes_are_no_mistake(name, tmp_path):
    assert found_in(tmp_path, CLEAN[name])[0] == []


def test_the_example_of_the_rule_is_reported_and_its_remedy_is_clean(tmp_path):
    example, remedy = BLOCK.findall(all_rules()["collective-on-wrong-device"].documentation)[:2]

    assert [d.rule for d in found_in(tmp_path, example)[0]] == ["collective-on-wrong-device"]
    assert found_in(tmp_path, remedy)[0] == []
