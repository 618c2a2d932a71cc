"""accelerate on virtual GPUs: the training loop, offloading, and the hooks that offloading hangs on modules."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("accelerate")

import accelerate
import torch
from accelerate.hooks import remove_hook_from_module
from torch import nn

from samedevice import virtual_gpus
from tests.frameworks.running import assert_runs_as_on_the_cpu, found, line_of

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize(("example", "gpus"), [("loop", 1), ("loop", 2), ("offload", 1), ("offload", 2)])
def test_the_example_prints_the_numbers_of_the_cpu_and_nothing_is_found(example: str, gpus: int) -> None:
    assert_runs_as_on_the_cpu(f"accelerate_{example}", gpus)


NET = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(16, 8)
        self.body = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
        self.head = nn.Linear(8, 16)

    def encode(self, tokens):
        return self.body(self.embed(tokens))

    def forward(self, tokens):
        return self.head(self.encode(tokens))


tokens = torch.arange(4)[None]
spread = {"embed": 0, "body": 0, "head": 1}
"""

#: what is done -> (the rule, what the message names, the program after the model's definition)
MISTAKES = {
    "a weight read past the hook of its module": (
        "offload-hook-bypassed",
        "has no data here: accelerate offloaded it, and its hook brings it to cuda:0 only when `model.head`",
        """
from accelerate import cpu_offload

model = cpu_offload(Net(), "cuda")
hidden = model.encode(tokens.cuda())
nn.functional.linear(hidden, model.head.weight, model.head.bias)  # mistake
""",
    ),
    "a weight copied while it is offloaded": (
        "offload-hook-bypassed",
        "`model.head.weight` has no data here",
        """
from accelerate import cpu_offload

model = cpu_offload(Net(), "cuda")
model.head.weight.cpu()  # mistake
""",
    ),
    "the value of an offloaded weight": (
        "offload-hook-bypassed",
        "`model.head.weight` has no data here",
        """
from accelerate import cpu_offload

model = cpu_offload(Net(), "cuda")
print(model.head.weight.norm().item())  # mistake
""",
    ),
    "the forward of the class instead of the module": (
        "offload-hook-bypassed",
        "`model.head.bias` has no data here",
        """
from accelerate import cpu_offload

model = cpu_offload(Net(), "cuda")
nn.Linear.forward(model.head, torch.rand(2, 8, device="cuda"))  # mistake
""",
    ),
    "a part of a model that is on the CPU between calls": (
        "offload-hook-bypassed",
        "`model.body[0].bias` is on cpu here: accelerate offloaded it",
        """
from accelerate import cpu_offload_with_hook

model, hook = cpu_offload_with_hook(Net(), "cuda")
model(tokens)
hook.offload()
print(model.body(torch.rand(2, 8, device="cuda")))  # mistake
""",
    ),
    "a weight on the GPU where the map put it": (
        "offload-hook-bypassed",
        "`model.head.weight` is on cuda:1, where accelerate put it",
        """
from accelerate import dispatch_model

model = dispatch_model(Net(), spread)
hidden = model.encode(tokens.cuda())
print(hidden @ model.head.weight.T)  # mistake
""",
    ),
    "a dispatched model moved": (
        "offload-hook-bypassed",
        '`model.to("cuda:0")` moves a model that accelerate has spread over devices',
        """
from accelerate import dispatch_model

model = dispatch_model(Net(), spread)
model.to("cuda:0")  # mistake
model(tokens.cuda())
""",
    ),
    "a model with offloaded parts moved": (
        "offload-hook-bypassed",
        'model.to("cuda")` moves a model whose weights are offloaded',
        """
from accelerate import dispatch_model

model = dispatch_model(Net(), {"embed": 0, "body": "cpu", "head": 0}, main_device=0)
model.to("cuda")  # mistake
""",
    ),
    "a part taken out of a dispatched model": (
        "tool-hook-left",
        "a hook of accelerate is still on `model.head`: it sends the inputs to cuda:1",
        """
from accelerate import dispatch_model

model = dispatch_model(Net(), spread)
head = model.head
head.to("cuda:0")  # mistake
head(torch.rand(2, 8, device="cuda"))
""",
    ),
    "inputs on the CPU, labels where the weights are": (
        "batch-not-moved",
        "the inputs of `model` are on cpu, so accelerate brings its outputs back to cpu",
        """
from accelerate import dispatch_model

model = dispatch_model(Net(), spread)
logits = model(tokens)  # mistake
nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten().to("cuda:1"))
""",
    ),
    "a loader that was not prepared": (
        "batch-not-moved",
        "`inputs` comes out of `test` on cpu",
        """
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

model = Accelerator().prepare(nn.Linear(4, 3))
test = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=4)
for (inputs,) in test:
    model(inputs)  # mistake
""",
    ),
}

#: mistakes of another kind in models with hooks: (the program, the rule that may answer)
OTHERS = {
    "an input on the CPU, given to a part that is on the GPU for now": (
        """
from accelerate import cpu_offload_with_hook

model, hook = cpu_offload_with_hook(Net(), "cuda")
model(tokens)
model.body(torch.rand(2, 8))
""",
        "offload-hook-bypassed",
    ),
    "a weight replaced by one on the CPU": (
        """
from accelerate import dispatch_model

model = dispatch_model(Net().to("cuda"), spread)
model.head.weight = nn.Parameter(torch.rand(16, 8))
model(tokens.cuda())
""",
        None,
    ),
    "a weight that two modules share, in the call of one": (
        """
from accelerate import dispatch_model

model = Net()
model.head.weight = model.embed.weight
model = dispatch_model(model, spread)
model.embed.weight = model.head.weight
model(tokens.cuda())
""",
        None,
    ),
}


@pytest.mark.parametrize("mistake", OTHERS)
def test_hooks_are_not_blamed_for_what_they_did_not_do(mistake: str, tmp_path: Path) -> None:
    program, rule = OTHERS[mistake]
    diagnostics = found(NET + program, tmp_path, gpus=2)

    assert diagnostics
    blaming = {"offload-hook-bypassed", "tool-hook-left"}
    assert rule is not None or not {d.rule for d in diagnostics} & blaming
    assert all("brings its outputs back" not in d.message for d in diagnostics)
    assert all("is on cuda:0 here: accelerate offloaded it" not in d.message for d in diagnostics)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_mistake_is_found_with_its_cause(mistake: str, tmp_path: Path) -> None:
    rule, message, program = MISTAKES[mistake]
    (diagnostic,) = found(NET + program, tmp_path, gpus=2)

    assert diagnostic.rule == rule
    assert diagnostic.location.line == line_of(NET + program)
    assert message in diagnostic.message


CORRECT = """
from accelerate import cpu_offload, cpu_offload_with_hook, dispatch_model
from accelerate.hooks import remove_hook_from_module
from accelerate.utils import align_module_device

model = cpu_offload(Net(), "cuda")
print(model.head(model.body(model.embed(tokens))).sum().item())
with align_module_device(model.head, "cuda"):
    print(model.head.weight.norm().item())
model, hook = cpu_offload_with_hook(Net(), "cuda")
print(model(tokens.cuda()).sum().item(), model.body(torch.rand(2, 8, device="cuda")).sum().item())
hook.offload()
print(model(tokens).sum().item())
model = dispatch_model(Net(), spread)
print((model.encode(tokens.cuda()).to("cuda:1") @ model.head.weight.T).sum().item())
remove_hook_from_module(model, recurse=True)
print(model.to("cuda:0")(tokens.cuda()).sum().item())
"""


def test_nothing_is_found_where_hooks_run_or_were_taken_off(tmp_path: Path) -> None:
    assert found(NET + CORRECT, tmp_path, gpus=2) == []


def test_hooks_of_a_program_of_several_stages_end_on_the_cpu() -> None:
    with virtual_gpus(1):
        first, one = accelerate.cpu_offload_with_hook(nn.Linear(2, 2), "cuda")
        second, two = accelerate.cpu_offload_with_hook(nn.Linear(2, 2), "cuda", prev_module_hook=one)
        result = second(first(torch.ones(1, 2)))

        assert (result.device.type, first.weight.device.type, second.weight.device.type) == (
            "cuda",
            "cpu",
            "cuda",
        )
        two.offload()
        assert second.weight.device.type == "cpu"
        remove_hook_from_module(second)


def test_a_notebook_launches_two_processes(tmp_path: Path) -> None:
    program = """
from accelerate import Accelerator, notebook_launcher

def train(size):
    import torch
    torch.manual_seed(0)
    accelerator = Accelerator()
    model = accelerator.prepare(torch.nn.Linear(size, 2))
    loss = model(torch.ones(1, size, device=accelerator.device)).sum()
    accelerator.backward(loss)
    gathered = accelerator.gather(loss.detach().reshape(1))
    assert len(gathered) == 2 and gathered[0] == gathered[1]
    assert accelerator.device.index == accelerator.process_index

if __name__ == "__main__":
    notebook_launcher(train, (3,), num_processes=2)
"""
    script = tmp_path / "launch.py"
    script.write_text(program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "samedevice", "check", "--gpus", "2", str(script)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )

    assert (done.returncode, "all clear" in done.stderr) == (0, True), done.stderr


def test_a_notebook_launches_a_training_function(tmp_path: Path) -> None:
    program = """
from accelerate import Accelerator, notebook_launcher
from torch import nn
import torch

def train(size):
    accelerator = Accelerator()
    model = accelerator.prepare(nn.Linear(size, 2))
    model(torch.ones(1, size, device=accelerator.device)).sum().backward()
    assert accelerator.device.type == "cuda"

notebook_launcher(train, (3,), num_processes=1)
"""
    assert found(program, tmp_path) == []
