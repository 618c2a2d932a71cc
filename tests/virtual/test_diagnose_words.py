"""What a diagnostic tells: the story in the order of time, the tensors by their names, how to write it right."""

import pytest

pytest.importorskip("torch")

from tests.virtual.diagnosing import diagnose

pytestmark = pytest.mark.torch


def only(tmp_path, code, gpus=1):
    """The one diagnostic of a program."""
    script = tmp_path / "program.py"
    script.write_text(code)
    (diagnostic,) = diagnose(script, gpus)
    return diagnostic


def test_the_story_of_a_plain_attribute(tmp_path):
    diagnostic = only(
        tmp_path,
        """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(3, 3)
        self.mask = torch.ones(3)

    def forward(self, x):
        return self.lin(x) * self.mask


net = Net()
net.to("cuda")
net(torch.rand(2, 3, device="cuda"))
""",
    )

    assert diagnostic.message == (
        "`self.mask` stays on cpu when `Net` moves to cuda:0: it is a plain attribute, not a buffer"
    )
    assert [(e.location.line, e.message) for e in diagnostic.evidence] == [
        (8, "`torch.ones(3)` is created on cpu here: it names no device"),
        (8, "kept as a plain attribute of `Net` here"),
        (15, "the module moves to cuda:0 here; plain attributes stay"),
        (11, "they meet here: `self.lin(x)` is on cuda:0; `self.mask` is on cpu"),
    ]
    assert diagnostic.suggestion == 'self.register_buffer("mask", torch.ones(3), persistent=False)'
    assert [(t.expression, t.owner, t.device, t.shape, t.at_fault) for t in diagnostic.tensors] == [
        ("self.lin(x)", None, "cuda:0", (2, 3), False),
        ("self.mask", "Net.mask", "cpu", (3,), True),
    ]
    assert (diagnostic.raised.exception, diagnostic.raised.location.line) == ("RuntimeError", 11)
    assert "buffers only" in diagnostic.lesson


@pytest.mark.parametrize(
    ("line", "suggestion"),
    [
        ("y = x + torch.zeros(3)", "torch.zeros(3, device=x.device)"),
        ("y = x + torch.tensor([1.0, 2.0, 3.0],)", "torch.tensor([1.0, 2.0, 3.0], device=x.device)"),
        ("y = x + 2 * torch.arange(3).float()", "torch.arange(3, device=x.device)"),
        ("y = torch.cat([x, torch.rand(3)])", "torch.rand(3, device=x.device)"),
        ("y = x + torch.from_numpy(numpy.ones(3))", "torch.from_numpy(numpy.ones(3)).to(x.device)"),
    ],
)
def test_a_factory_follows_the_tensor_it_meets(line, suggestion, tmp_path):
    diagnostic = only(
        tmp_path,
        f"import numpy\nimport torch\n\n\ndef f(x):\n    {line}\n    return y\n\n\nf(torch.rand(3, device='cuda'))\n",
    )

    assert (diagnostic.rule, diagnostic.location.line) == ("factory-without-device", 6)
    assert diagnostic.suggestion == suggestion


def test_operands_of_a_function_have_the_names_of_its_arguments(tmp_path):
    diagnostic = only(
        tmp_path,
        """\
import torch
from torch.nn import functional as F

logits = torch.rand(4, 3, device="cuda")
for target in [torch.tensor([0, 1, 2, 0])]:
    F.cross_entropy(logits * 2, target)
""",
    )

    assert [t.expression for t in diagnostic.tensors] == ["logits * 2", "target"]


def test_messages_are_single_sentences_without_a_full_stop(tmp_path):
    diagnostic = only(
        tmp_path, "import torch\n\nx = torch.rand(3, device='cuda')\ny = torch.rand(3)\nprint(x + y)\n"
    )

    for text in (diagnostic.message, diagnostic.help, *(e.message for e in diagnostic.evidence)):
        assert "\n" not in text
        assert not text.endswith(".")
