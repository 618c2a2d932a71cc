"""Mistakes whose line lies behind a helper: a registry, a constructor, a hook, keywords handed on."""

from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.virtual.diagnosing import diagnose

pytestmark = pytest.mark.torch

HEAD = """
import copy
import torch
from torch import nn
"""

PROGRAMS = {
    "a part that is added within the failing line": (
        "module-added-after-move",
        """
class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.heads = nn.Linear(3, 3), nn.ModuleDict()

    def head(self, name):
        if name not in self.heads:
            self.heads[name] = nn.Linear(3, 2)  # mistake
        return self.heads[name]

    def forward(self, x):
        return self.head("depth")(self.stem(x))


heads = Heads().to("cuda")
print(heads(torch.rand(2, 3, device="cuda")).shape)
""",
    ),
    "parts that are added to a base class that moves itself, more than it had": (
        "module-added-after-move",
        """
class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 4)
        self.to("cuda")


class Headed(Base):
    def __init__(self):
        super().__init__()
        self.head = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 2))  # mistake

    def forward(self, x):
        return self.head(self.body(x))


print(Headed()(torch.rand(2, 3, device="cuda")).shape)
""",
    ),
    "a copy in a constructor whose result is moved at once": (
        "copy-left-behind",
        """
class Pair(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.frozen = (copy.deepcopy(net),)  # mistake

    def forward(self, x):
        return self.net(x) - self.frozen[0](x)


pair = Pair(nn.Linear(3, 2)).to("cuda")
print(pair(torch.rand(2, 3, device="cuda")).shape)
""",
    ),
    "a device that a function with keywords of any name hands on": (
        "device-argument-dropped",
        """
class Counter:
    def __init__(self, classes, device="cpu"):
        self.classes, self.device = classes, device
        self.reset()

    def reset(self):
        self.counts = torch.zeros(self.classes, device=self.device)

    def add(self, values):
        self.counts += values


def counters(classes, **options):
    return {"all": Counter(classes, **options)}


found = counters(4)  # mistake
found["all"].add(torch.rand(4, device="cuda"))
""",
    ),
    "a device of None that a caller left out": (
        "device-argument-dropped",
        """
def chance(shape, share, device=None):
    if share == 0:
        return torch.zeros(shape, device=device, dtype=torch.bool)
    return torch.rand(shape, device=device) < share


def dropped(x):
    keep = chance(x.shape, 0.5)  # mistake
    return torch.where(keep, x, x.new_zeros(()))


print(dropped(torch.rand(3, device="cuda")).shape)
""",
    ),
    "a value that is put at indices from the CPU": (
        "factory-without-device",
        """
def targets(scores, rows):
    goal = torch.zeros(len(scores), device=scores.device)
    found = torch.ones(len(rows))  # mistake
    goal[rows] = found
    return goal


print(targets(torch.rand(4, device="cuda"), [0, 2]))
""",
    ),
    "a module that a registry makes": (
        "module-not-moved",
        """
class Registry(dict):
    def build(self, kind, **options):
        return self[kind](**options)


class Centres(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(classes, 3))

    def forward(self, x):
        return x @ self.weight.T


losses = Registry(Centres=Centres)
criterion = losses.build("Centres", classes=4)  # mistake
print(criterion(torch.rand(2, 3, device="cuda")).shape)
""",
    ),
    "a hook that uses what it kept on the host": (
        "hardcoded-device",
        """
class Centre:
    def __init__(self):
        self.seen, self.mean = [], None

    def __call__(self, module, args, output):
        self.seen.append(output.detach().mean(0).cpu())  # mistake
        if self.mean is not None:
            return output - self.mean


net = nn.Linear(3, 2).to("cuda")
centre = Centre()
net.register_forward_hook(centre)
for _ in range(2):
    net(torch.rand(4, 3, device="cuda"))
    centre.mean = torch.stack(centre.seen).mean(0)
""",
    ),
    "a queue that the model fills at its first call": (
        "factory-without-device",
        """
class Bank(nn.Module):
    bank = None

    def forward(self, x):
        if self.bank is None:
            self.bank = torch.randn(8, x.shape[1])  # mistake
        return x, self.bank.clone()


class Contrast(Bank):
    def forward(self, x):
        x, negatives = super().forward(x)
        return x @ negatives.T


print(Contrast().to("cuda")(torch.rand(2, 3, device="cuda")).shape)
""",
    ),
    "names that a call gives to what it was handed as new": (
        "factory-without-device",
        """
def rays(pose, size):
    i, j = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")  # mistake
    directions = torch.stack([i - 1.0, j - 1.0, -torch.ones_like(i)], -1)
    return directions[..., None, :] * pose


print(rays(torch.rand(3, 3, device="cuda"), 2).shape)
""",
    ),
    "what was brought to the host beside what was not": (
        "hardcoded-device",
        """
def merged(states):
    kept = [state.cpu() for state in states]  # mistake
    first = kept[0].cuda()
    parts = [first, kept[1]]
    return torch.cat(parts)


print(merged(torch.rand(2, 3, device="cuda")).shape)
""",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_mistake_is_found_where_it_was_made(name: str, tmp_path: Path) -> None:
    rule, program = PROGRAMS[name]
    script = tmp_path / "program.py"
    script.write_text(HEAD + program, encoding="utf-8")
    line = next(n for n, text in enumerate((HEAD + program).splitlines(), 1) if "# mistake" in text)

    assert [(d.rule, d.location.line) for d in diagnose(script)] == [(rule, line)]


def test_a_default_that_names_both_gpus_is_not_what_separates_them(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        HEAD
        + """
class Split(nn.Module):
    def __init__(self, devices=("cuda:0", "cuda:1")):
        super().__init__()
        self.first = nn.Linear(3, 3).to(devices[0])
        self.second = nn.Linear(3, 3).to(devices[1])

    def forward(self, x):
        return self.second(self.first(x))


print(Split()(torch.rand(2, 3, device="cuda:0")).shape)
""",
        encoding="utf-8",
    )

    assert [d.rule for d in diagnose(script, 2)] == ["split-without-move"]


def test_a_skip_that_enters_a_part_on_the_other_gpu_is_to_be_moved_where_it_is_handed_over(
    tmp_path: Path,
) -> None:
    script = tmp_path / "program.py"
    text = (
        HEAD
        + """
class Up(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(3, 3)

    def forward(self, x, skip):
        return torch.cat([skip, self.up(x)], dim=1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Linear(3, 3).to("cuda:0"), Up().to("cuda:1")

    def forward(self, x):
        skip = self.down(x)
        x = skip.to("cuda:1")
        return self.up(x, skip)  # mistake


print(Net()(torch.rand(2, 3, device="cuda:0")).shape)
"""
    )
    script.write_text(text, encoding="utf-8")
    line = next(n for n, written in enumerate(text.splitlines(), 1) if "# mistake" in written)

    assert [(d.rule, d.location.line) for d in diagnose(script, 2)] == [("split-without-move", line)]
