"""The edits that a run proposes: right in awkward syntax or none at all, and nothing else is touched."""

import ast
from pathlib import Path

import pytest

pytest.importorskip("torch")

from samedevice.model.fix import Fix, Point
from samedevice.source.edits import comments
from samedevice.source.lines import LineIndex
from samedevice.source.rewriting import EditError, edit_bytes
from tests.source.undoing import undone
from tests.virtual.diagnosing import diagnosis

pytestmark = pytest.mark.torch

HEAD = """\
import torch
from torch import nn
device = torch.device("cuda")
"""

CACHE = """\
steps = {{}}
def shifted(x):
{key}    if {asked} not in steps:
        steps[{asked}] = torch.arange(x.shape[1], device=x.device) + 0.5
    return x + steps[{asked}]
shifted(torch.ones(1, 2))
shifted(torch.ones(1, 2, device=device))
"""

TUPLES = """\
from collections import namedtuple
Row = namedtuple("Row", "x name")
def move(obj, where):
    if torch.is_tensor(obj):
        return obj.to(where)
    if isinstance(obj, dict):
        return {k: move(v, where) for k, v in obj.items()}
    if isinstance(obj, list):
        return [move(v, where) for v in obj]
    return obj
batch = move({"scale": torch.ones(2), "rows": [Row(torch.ones(2), "a")]}, device)
batch["scale"] * batch["rows"][0].x
"""

#: name -> (program, the line that the first fix makes of the wrong one)
PROGRAMS = {
    "factory": (
        HEAD + "def add(x):\n    return x + torch.zeros(2)  # äöü 🙂\nadd(torch.ones(2).to(device))\n",
        "    return x + torch.zeros(2, device=x.device)  # äöü 🙂\n",
    ),
    "behind wide characters": (
        HEAD + 'def add(x):\n    "🙂"; y = x + torch.zeros(2)\n    return y\nadd(torch.ones(2).to(device))\n',
        '    "🙂"; y = x + torch.zeros(2, device=x.device)\n',
    ),
    "carriage returns": (
        (HEAD + "def add(x):\n    return x + torch.zeros(2)\nadd(torch.ones(2).to(device))\n").replace(
            "\n", "\r\n"
        ),
        "    return x + torch.zeros(2, device=x.device)\r\n",
    ),
    "tabs": (
        HEAD
        + "class M(nn.Module):\n\tdef __init__(self):\n\t\tsuper().__init__()\n\t\tself.t = torch.ones(2)  # kept\n"
        "\tdef forward(self, x):\n\t\treturn x + self.t\nM().to(device)(torch.ones(2, device=device))\n",
        '\t\tself.register_buffer("t", torch.ones(2), persistent=False)  # kept\n',
    ),
    "a node's hook": (
        HEAD + "def back(inputs, outputs):\n    return (inputs[0].cpu(), *inputs[1:])\n"
        "x = torch.ones(2, device=device, requires_grad=True)\ny = x * 2\nnode = y.grad_fn\n"
        "node.register_hook(back)\ny.sum().backward()\n",
        "    return (inputs[0].to(inputs[0].device), *inputs[1:])\n",
    ),
    "one-line suite": (
        HEAD + "def add(x): return x + torch.zeros(2)\nadd(torch.ones(2).to(device))\n",
        "def add(x): return x + torch.zeros(2, device=x.device)\n",
    ),
    "one-line loop": (
        HEAD + "from torch.utils.data import DataLoader\nm = nn.Linear(2, 2).to(device)\n"
        "for x in DataLoader(torch.ones(2, 2)): m(x)\n",
        "for x in DataLoader(torch.ones(2, 2)): m(x.to(device))\n",
    ),
    "decorated": (
        HEAD
        + "@torch.no_grad()\ndef add(x):\n    return x + torch.zeros(2)\nadd(torch.ones(2).to(device))\n",
        "    return x + torch.zeros(2, device=x.device)\n",
    ),
    "f-string": (
        HEAD + 'def add(x):\n    return f"{(x + torch.zeros(2)).sum()}"\nadd(torch.ones(2).to(device))\n',
        '    return f"{(x + torch.zeros(2, device=x.device)).sum()}"\n',
    ),
    "alias": (
        "import torch as th\ndef add(x):\n    return x + th.zeros(2)\nadd(th.ones(2).cuda())\n",
        "    return x + th.zeros(2, device=x.device)\n",
    ),
    "name": (
        "from torch import zeros, ones\ndef add(x):\n    return x + zeros(2)\nadd(ones(2).cuda())\n",
        "    return x + zeros(2, device=x.device)\n",
    ),
    "star": (
        "from torch import *\ndef add(x):\n    return x + zeros(2)\nadd(ones(2).cuda())\n",
        "    return x + zeros(2, device=x.device)\n",
    ),
    "several lines": (
        HEAD + "def add(x):\n    return x + torch.full(\n        (2,),  # two\n        1.0,  # one\n    )\n"
        "add(torch.ones(2).to(device))\n",
        "        1.0, device=x.device,  # one\n",
    ),
    "discarded": (
        HEAD + "m = nn.Linear(2, 2).to(device)\nx = torch.ones(2)\nif m: x.to(device)  # gone\nm(x)\n",
        "if m: x = x.to(device)  # gone\n",
    ),
    "numpy": (
        HEAD + "x = torch.ones(2).to(device)\nprint((x + 1).numpy())\n",
        "print((x + 1).cpu().numpy())\n",
    ),
    "list of modules": (
        HEAD + "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.parts = [\n            nn.Linear(2, 2),  # first\n        ]\n"
        "    def forward(self, x):\n        return self.parts[0](x)\nM().to(device)(torch.ones(2, device=device))\n",
        "        self.parts = nn.ModuleList([\n",
    ),
    "order": (
        HEAD + "import copy\nm = nn.Linear(2, 2)\nteacher = copy.deepcopy(m)  # now\nm.to(device)\n"
        "teacher(torch.ones(2, device=device))\n",
        "m.to(device)\nteacher = copy.deepcopy(m)  # now\n",
    ),
    "update in place": (
        HEAD
        + "m = nn.Linear(2, 2, bias=False)\ndef update(mean, value):\n    mean.lerp_(value, 0.1)  # kept\n"
        "mean = m.weight.detach().clone()\nm.to(device)\nupdate(mean, m.weight.detach())\n",
        "    mean.lerp_(value.to(mean.device), 0.1)  # kept\n",
    ),
    "result given": (
        HEAD
        + "def add(x, into):\n    torch.add(x, 1.0, out=into)  # there\nclass Row:\n    def __init__(self):\n"
        '        self.sum = torch.zeros(2, device="cpu")\nrow = Row()\n'
        "add(torch.ones(2).to(device), row.sum)\n",
        "        self.sum = torch.zeros(2, device=device)\n",
    ),
    "batch without a name for its part": (
        HEAD + "from torch.utils.data import DataLoader\nclass Rows:\n    def __init__(self, items):\n"
        "        self.x = torch.stack(items)\n    def to(self, device):\n        self.x = self.x.to(device)\n"
        "        return self\nm = nn.Linear(2, 2).to(device)\n"
        "for rows in DataLoader(torch.ones(4, 2), collate_fn=Rows):\n    # all of them\n    m(rows.x)\n",
        "    # all of them\n    rows = rows.to(device)\n    m(rows.x)\n",
    ),
    "what another object keeps for itself": (
        "import torch\nclass Runner:\n    def __init__(self):\n        self._device = torch.device('cuda')\n"
        "    def bring(self, x):\n        return x.to(self._device)\nrunner = Runner()\n"
        "x = runner.bring(torch.ones(2))\nx + torch.zeros(2)\n",
        "x + torch.zeros(2, device=x.device)\n",
    ),
    "a parameter with more arguments": (
        HEAD + "w = nn.Parameter(\n    torch.ones(2),  # two\n    requires_grad=True,\n).to(device)\n"
        "torch.optim.SGD([w], lr=0.1)\n",
        "    torch.ones(2).to(device),  # two\n    requires_grad=True,\n)\n",
    ),
    "a leaf that is moved": (
        HEAD + "w = torch.ones(2, requires_grad=True).cuda()\ntorch.optim.SGD([w], lr=0.1)\n",
        'w = torch.ones(2, requires_grad=True, device="cuda")\n',
    ),
    "a leaf that is moved later": (
        HEAD + "w = torch.ones(2).requires_grad_().to(device)\ntorch.optim.SGD([w], lr=0.1)\n",
        "w = torch.ones(2).to(device).requires_grad_()\n",
    ),
    "classes of torch.nn by name": (
        "from torch.nn import Module, Linear  # two\nfrom torch import ones\nclass M(Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.parts = [Linear(2, 2)]\n"
        "    def forward(self, x):\n        return self.parts[0](x)\nM().cuda()(ones(2).cuda())\n",
        "from torch.nn import Module, Linear, ModuleList  # two\n",
    ),
    "all on one line": (
        "import torch; device = torch.device('cuda'); t = torch.ones(2); torch.ones(2, device=device) + t; x = 1\n",
        "t = torch.ones(2, device=device); ",
    ),
    "imported in a function": (
        "def main():\n    import torch\n    from torch.utils.data import DataLoader\n"
        "    torch.set_default_device('cuda')\n    for x in DataLoader(torch.ones(4, 2), shuffle=True): pass\nmain()\n",
        'shuffle=True, generator=torch.Generator(device="cuda")): pass\n',
    ),
    "copied by the constructor": (
        HEAD + "import copy\nclass Pair(nn.Module):\n    def __init__(self, scale, online):\n"
        "        super().__init__()\n        self.online = online\n"
        "        object.__setattr__(self, 'target', copy.deepcopy(online).requires_grad_(False))\n"
        "    def forward(self, x):\n        return self.online(x) - self.target(x)\n"
        "pair = Pair(2, online=nn.Linear(2, 2)).to(device)\npair(torch.ones(1, 2, device=device))\n",
        "pair = Pair(2, online=nn.Linear(2, 2).to(device)).to(device)\n",
    ),
    "built late in a method that has ended": (
        "import torch\nfrom torch import nn\nclass Late(nn.Module):\n    def __init__(self, body):\n        super().__init__()\n"
        "        self.body, self.heads = body, nn.ModuleDict()\n    def head(self, name):\n"
        "        if name not in self.heads:\n            self.heads[name] = nn.Linear(2, 2)\n"
        "        return self.heads[name]\n    def forward(self, x):\n        return self.head('a')(self.body(x))\n"
        "late = Late(nn.Sequential(nn.Linear(2, 2), nn.ReLU())).to('cuda')\nlate(torch.ones(1, 2, device='cuda'))\n",
        "self.heads[name] = nn.Linear(2, 2).to(next(self.body.parameters()).device)\n",
    ),
    "a cache by a named key": (
        HEAD + CACHE.format(key="    key = x.shape[1]\n", asked="key"),
        "    key = (x.shape[1], x.device)\n",
    ),
    "a cache by a key in place": (
        HEAD + CACHE.format(key="", asked="(x.shape[1], x.dtype)"),
        "    return x + steps[(x.shape[1], x.dtype, x.device)]\n",
    ),
    "tuples that a nested move does not know": (
        (HEAD + TUPLES).replace("\n", "\r\n"),
        "    if isinstance(obj, tuple):\r\n        parts = [move(v, where) for v in obj]\r\n",
    ),
    "a move to the host that nothing asks for": (
        HEAD + "def add(x):\n    return x + x.detach().mean(0).cpu()\nadd(torch.ones(2, 2, device=device))\n",
        "    return x + x.detach().mean(0)\n",
    ),
    "parts that only their list names": (
        HEAD + "def joined(x, keep):\n    parts = [x]\n    parts.append(x.cpu() if keep else x)\n"
        "    return torch.cat(parts)\njoined(torch.ones(2, device=device), True)\n",
        "    return torch.cat([part.to(x.device) for part in parts])\n",
    ),
    "pinned": (
        HEAD + "from torch.utils.data import DataLoader\ndata = torch.ones(4, 2).to(device)\n"
        "for x in DataLoader(data, pin_memory=True, batch_size=2): pass\n",
        "for x in DataLoader(data, batch_size=2): pass\n",
    ),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, str, tuple[Fix, ...]]]:
    """The edits for each program, all of one process."""
    folder = tmp_path_factory.mktemp("programs")
    result = {}
    for number, (name, (text, _)) in enumerate(PROGRAMS.items()):
        script = folder / f"program{number}.py"
        script.write_bytes(text.encode())
        _, fixes = diagnosis(script)
        result[name] = (script, text, tuple(fix for group in fixes for fix in group))
    return result


def made(script: Path, fix: Fix) -> str:
    return edit_bytes(str(script), script.read_bytes(), fix.edits).decode()


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_first_edit_is_what_a_careful_person_would_write(
    found: dict[str, tuple[Path, str, tuple[Fix, ...]]], name: str
) -> None:
    script, _, fixes = found[name]
    assert PROGRAMS[name][1] in made(script, fixes[0])


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_first_edit_takes_the_mistake_out_so_that_it_is_made_once(
    found: dict[str, tuple[Path, str, tuple[Fix, ...]]], name: str, tmp_path: Path
) -> None:
    script, _, fixes = found[name]
    repaired = tmp_path / f"repaired_{script.name}"
    repaired.write_bytes(made(script, fixes[0]).encode())
    assert diagnosis(repaired) == ([], ())


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_edit_touches_nothing_outside_its_range_and_keeps_comments(
    found: dict[str, tuple[Path, str, tuple[Fix, ...]]], name: str
) -> None:
    script, text, fixes = found[name]
    assert fixes
    for fix in fixes:
        try:
            new = made(script, fix)
        except EditError:
            continue  # it would not be made
        ast.parse(new)
        assert sorted(comments(new)) == sorted(comments(text))
        index = LineIndex(text)
        first = min(index.offset(edit.start) for edit in fix.edits)
        last = max(index.offset(edit.end) for edit in fix.edits)
        assert new.startswith(text[:first])
        assert new.endswith(text[last:])
        assert new.count("\n") - new.count("\r\n") in (0, new.count("\n"))  # one kind of line end
        assert undone(str(script), text, new, fix) == text


def test_points_are_counted_in_characters() -> None:
    assert LineIndex("🙂x\n").point(1) == Point(1, 2)
