"""Every rule that `check` reports is repaired and proven on its example and its cases, or says why not; one process.

`docs/fix.md` has a row for each rule; what it says of safety and of the number of programs is held here.
"""

import json
import re
from collections import defaultdict
from pathlib import Path

import pytest

pytest.importorskip("torch")

from samedevice.rules import all_rules
from samedevice.rules.rule import Rule
from tests.virtual.repairing import repair
from tests.virtual.test_rule_examples import BLOCK, DISTRIBUTED, NEEDS

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]
CHECKED = {name: rule for name, rule in all_rules().items() if "check" in rule.engines}
REPAIRED = {name for name, rule in CHECKED.items() if type(rule).repairs is not Rule.repairs}

#: name -> (rule, program, GPUs)
PROGRAMS = {
    f"example of {name}": (name, BLOCK.findall(rule.documentation)[0], 2)
    for name, rule in CHECKED.items()
    if name in REPAIRED - DISTRIBUTED
}
for path in sorted((ROOT / "tests" / "cases").glob("*/expect.json")):
    expected = json.loads(path.read_text())
    if expected["rule"] in REPAIRED:
        text = (path.parent / "bug.py").read_text()
        PROGRAMS[path.parent.name] = (expected["rule"], text, expected["gpus"])

WORKERS = """\
import torch
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

class Rows(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        x = torch.full((2,), float(i))
        {body}

net = torch.nn.Linear(2, 2).to(device)
{loop}
"""

for name, body, loop in (
    (
        "a worker that moves both parts",
        "return x.to(device), torch.tensor(i).to(device)",
        "for i, (x, y) in enumerate(DataLoader(Rows(), num_workers=1)):\n    print((net(x) * y).shape)",
    ),
    (
        "a worker that moves one of two",
        "x = x.to(device)\n        return x, str(i)",
        "for x, name in DataLoader(Rows(), num_workers=1):\n    print(net(x).shape, name)",
    ),
    (
        "a worker that fills a dictionary",
        'return {"x": x.to(device, non_blocking=True), "name": str(i)}',
        'for row in DataLoader(Rows(), num_workers=1):\n    print(net(row["x"]).shape)',
    ),
    (
        "a batch taken by hand",
        "return torch.zeros(2, device=device) + x.to(device)",
        "x = next(iter(DataLoader(Rows(), num_workers=1)))\nprint(net(x).shape)",
    ),
    (
        "a worker whose move changes the type",
        "return x.to(device, torch.float32)",
        "for x in DataLoader(Rows(), num_workers=1): print(net(x).shape)",
    ),
):
    PROGRAMS[name] = ("cuda-in-forked-worker", WORKERS.format(body=body, loop=loop), 1)

MANY = """\
import torch as th
from torch import *

class Netz(th.nn.Module):  # äöü 🙂
\tdef __init__(self):
\t\tsuper().__init__()
\t\tself.größe = th.full(
\t\t\t(2,),  # zwei
\t\t\t0.5,
\t\t)
\t\tself.kopf, self.teile = th.nn.Linear(2, 2), None
\t\tself.teile = [th.nn.Linear(2, 2)]
\t@th.no_grad()
\tdef forward(self, x): return self.teile[0](self.kopf(x)) * self.größe + ones(2)

netz = Netz().to("cuda")
x = zeros(3, 2); x.to("cuda")  # weg
print(f"{netz(x).numpy().sum() > -99}")
""".replace("\n", "\r\n")
PROGRAMS["five mistakes in one file"] = ("discarded-move", MANY, 1)

PROGRAMS["an average that is updated in place"] = (
    "copy-left-behind",
    """\
import copy
import torch
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

class Average:
    def __init__(self, model):
        self.mean = copy.deepcopy(model)

    def update(self, model):
        for mean, value in zip(self.mean.parameters(), model.parameters()):
            mean.data.lerp_(value.data, 0.1)

def train(model, average):
    model.to(device)
    average.update(model)

model = torch.nn.Linear(2, 2)
train(model, Average(model))
""",
    1,
)

PROGRAMS["modules by keys that are methods"] = (
    "module-in-container",
    """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = {"train": nn.Linear(2, 2), 7: nn.Linear(2, 2)}

    def forward(self, x):
        return self.heads["train"](x) + self.heads[7](x)

print(Net().to("cuda")(torch.ones(1, 2, device="cuda")).shape)
""",
    1,
)

PROGRAMS["two alike on one line"] = (
    "factory-without-device",
    """\
import torch
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = torch.nn.Linear(3, 3).to(device)
x, y = torch.ones(2, 3), torch.ones(2, 3)
print((net(x) - y).shape)
""",
    1,
)

PROGRAMS["a reset behind a decorator"] = (
    "factory-without-device",
    """\
import functools
import torch

def counted(method):
    @functools.wraps(method)
    def wrapper(self, *args):
        self.calls = getattr(self, "calls", 0) + 1
        return method(self, *args)
    return wrapper

class Tally:
    def __init__(self, where):
        self._device = where
        self.reset()

    @counted
    def reset(self):
        self.total = torch.zeros(3)

    @counted
    def update(self, x):
        self.total += x

tally = Tally(torch.device("cuda", 0))
tally.update(torch.ones(3, device="cuda"))
print(tally.total.tolist())
""",
    1,
)

PROGRAMS["a scale that both operands are divided by"] = (
    "device-argument-dropped",
    """\
import torch

def near(a, b, scale):
    return torch.cdist(a / scale, b / scale)

def kernel(scales, device=None):
    scale = torch.tensor(scales, device=device)
    return lambda a, b: near(a, b, scale)

x = torch.ones(2, 3, device="cuda")
print(kernel([1.0, 2.0, 3.0])(x, x).shape)
""",
    1,
)

PROGRAMS["a cache that two GPUs share"] = (
    "cached-on-first-device",
    """\
import torch

grids = {}

def warped(flow):
    key = tuple(flow.shape)
    if key not in grids:
        grids[key] = torch.linspace(-1, 1, flow.shape[1], device=flow.device).expand(flow.shape[0], -1) * 2
    return (grids[key] + flow * 2).sum()

print([warped(torch.ones(2, 3).to(f"cuda:{i}")).item() for i in (1, 0)])
""",
    2,
)

PROGRAMS["a generator that draws on the host first"] = (
    "generator-on-other-device",
    """\
import torch

class Sampler:
    def __init__(self):
        self.weights, self.generator = torch.ones(4), torch.Generator().manual_seed(0)

    def draw(self):
        return torch.multinomial(self.weights, 2, generator=self.generator).tolist()

sampler = Sampler()
print(len(sampler.draw()))
sampler.weights = torch.ones(4, device="cuda")
print(len(sampler.draw()))
""",
    1,
)

#: what a repair of these programs must read
WRITTEN = {
    "a generator that draws on the host first": "torch.multinomial(self.weights.cpu(), 2, generator",
    "a cache that two GPUs share": "    key = (tuple(flow.shape), flow.device)\n",
    "a reset behind a decorator": "self.total = torch.zeros(3, device=self._device)\n",
    "two alike on one line": "x, y = torch.ones(2, 3, device=device), torch.ones(2, 3, device=device)\n",
    "an average that is updated in place": "            mean.data.lerp_(value",
    "modules by keys that are methods": "        self.heads_modules = nn.ModuleList(self.heads.values())\n",
    "a worker that moves both parts": "    x, y = x.to(device), y.to(device)\n",
    "a worker that moves one of two": "    x = x.to(device)\n    print(net(x)",
    "a worker that fills a dictionary": '    row["x"] = row["x"].to(device)\n',
    "a batch taken by hand": "        return torch.zeros(2) + x\n",
    "a worker whose move changes the type": "num_workers=0",
    "five mistakes in one file": 'x = zeros(3, 2); x = x.to("cuda")  # weg',
    "fork-worker": 'return torch.full((2,), float(i))\n\n\nif __name__ == "__main__":',
    "meta-never-filled": 'with torch.device("cuda"):',
    "example of moved-behind-your-back": "    model.to(device)\n    return result\n",
    "example of tied-weights-split": "head(embed(ids).to(head.weight.device))",
    "example of device-mismatch": 'torch.ones(3, device=places["weights"])',
    "example of tool-hook-left": "    features.append(output)\n\nmodel",
    "example of kernel-on-other-gpu": "with torch.cuda.device(x.device):\n    double[(1,)](x, 100, BLOCK=128)",
}


def rows() -> dict[str, list[str]]:
    """The cells of each rule's row in the page's tables."""
    found = {}
    for line in (ROOT / "docs" / "fix.md").read_text().splitlines():
        match = re.match(r"\| `([\w-]+)` \|(.*)\|$", line)
        if match is not None and match[1] in CHECKED:
            found[match[1]] = [cell.strip() for cell in match[2].split("|")]
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_mistake_is_taken_out_and_a_run_proves_it(name: str, tmp_path: Path) -> None:
    rule, text, gpus = PROGRAMS[name]
    if name.startswith("example of ") and rule in NEEDS:
        pytest.importorskip(NEEDS[rule])
    script = tmp_path / "program.py"
    script.write_text(text, newline="")

    repaired = repair(script, gpus)

    assert repaired.trial.outcome is not None
    assert repaired.trial.outcome.diagnostics == ()
    assert rule in {one.diagnostic.rule for one in repaired.made}
    assert WRITTEN.get(name, "") in script.read_text()
    safe = {str(one.fix.applicability) for one in repaired.made if one.diagnostic.rule == rule}
    assert safe <= set(rows()[rule][1].split(" or "))


def test_the_page_names_every_rule_that_check_reports_and_how_many_programs_prove_its_fix() -> None:
    table = rows()
    proven = defaultdict(int)
    for rule, _, _ in PROGRAMS.values():
        proven[rule] += 1

    assert sorted(table) == sorted(CHECKED)
    assert [n for n in REPAIRED if not 0 < int(table[n][2]) <= max(proven[n], n in DISTRIBUTED)] == []
    assert {n for n, cells in table.items() if len(cells) == 1} == set(CHECKED) - REPAIRED


@pytest.mark.parametrize("name", sorted(set(CHECKED) - REPAIRED))
def test_a_rule_without_a_fix_says_so_and_what_to_do(name: str) -> None:
    assert "There is no automatic fix" in CHECKED[name].documentation
