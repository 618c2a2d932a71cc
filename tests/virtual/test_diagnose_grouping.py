"""One mistake is one diagnostic, however often and wherever it fires; several mistakes are told apart."""

import pytest

pytest.importorskip("torch")

from tests.virtual.diagnosing import diagnose

pytestmark = pytest.mark.torch


def found(tmp_path, code, gpus=1):
    """(rule, line, count) of each diagnostic of a program."""
    script = tmp_path / "program.py"
    script.write_text(code)
    return [(d.rule, d.location.line, d.count) for d in diagnose(script, gpus)]


def test_a_model_that_was_never_moved_is_one_mistake_for_all_its_layers(tmp_path):
    code = """\
import torch
from torch import nn

net = nn.Sequential(*[layer for _ in range(20) for layer in (nn.Linear(4, 4), nn.LayerNorm(4))])
for _ in range(3):
    net(torch.rand(2, 4, device="cuda")).sum().backward()
"""
    assert found(tmp_path, code) == [("module-not-moved", 4, 120)]


def test_three_mistakes_of_one_run_are_three_diagnostics_in_the_order_they_were_met(tmp_path):
    code = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.scale = torch.ones(4)

    def forward(self, x):
        return self.fc(x * self.scale)


net = Net().to("cuda")
data = DataLoader(TensorDataset(torch.rand(6, 4), torch.randint(0, 3, (6,))), batch_size=3)
for x, y in data:
    out = net(x.to("cuda"))
    nn.functional.cross_entropy(out, y.to("cuda")).backward()
for x, y in data:
    out = net(x)
    hits = (out.argmax(1).cpu() == y).sum()
scores = out.detach().numpy()
"""
    assert found(tmp_path, code) == [
        ("unregistered-tensor", 10, 2),
        ("batch-not-moved", 22, 2),
        ("numpy-on-gpu", 24, 1),
    ]


def test_the_same_helper_called_rightly_and_wrongly_is_reported_for_the_wrong_call(tmp_path):
    code = """\
import torch

net = torch.nn.Linear(4, 1).to("cuda")


def run(x):
    return net(x)


def good():
    data = torch.rand(3, 4, device="cuda")
    return run(data)


def bad():
    data = torch.rand(3, 4)
    return run(data)


good()
bad()
bad()
"""
    assert found(tmp_path, code) == [("factory-without-device", 16, 2)]


def test_a_mistake_inside_an_installed_package_is_reported_at_the_users_call(tmp_path):
    transformers = pytest.importorskip("transformers")
    assert transformers
    script = tmp_path / "program.py"
    script.write_text(
        """\
import torch
from transformers import GPT2Config, GPT2Model

model = GPT2Model(GPT2Config(vocab_size=20, n_embd=8, n_layer=1, n_head=2, n_positions=8)).to("cuda")
rows = [torch.randint(0, 20, (1, 4))]
for ids in rows:
    model(ids)
"""
    )
    (diagnostic,) = diagnose(script)

    assert (diagnostic.rule, diagnostic.location.line) == ("batch-not-moved", 7)
    assert diagnostic.raised.location.line == 7
    assert any("in transformers" in step.message for step in diagnostic.evidence)


def test_nothing_is_said_of_a_program_that_is_right(tmp_path):
    code = """\
import torch
from torch import nn

table = torch.arange(10.0)
net = nn.Linear(4, 4).to("cuda")
x = torch.rand(2, 4, device="cuda") * torch.tensor(2.0)
shadow = [p.detach().cpu().clone() for p in net.parameters()]
for s, p in zip(shadow, net.parameters()):
    s.mul_(0.9).add_(p.detach().cpu(), alpha=0.1)
x[torch.tensor([0])] = 0
print(net(x).cpu().detach().numpy().shape, table[torch.tensor([1])])
"""
    assert found(tmp_path, code) == []
