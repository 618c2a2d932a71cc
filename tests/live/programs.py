"""Small programs with one placement mistake each; the line of the mistake ends in `# mistake`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Program:
    """A program and what a post mortem should say of it."""

    rule: str
    source: str
    gpus: int = 1

    @property
    def mistakes(self) -> list[int]:
        """Lines that count as the place of the mistake."""
        return [
            n for n, line in enumerate(self.source.splitlines(), 1) if line.rstrip().endswith("# mistake")
        ]


PROGRAMS = {
    "batch": Program(
        "batch-not-moved",
        """\
import torch
from torch.utils.data import DataLoader

net = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.ReLU(), torch.nn.Linear(5, 1)).to("cuda")

def evaluate(rows):
    for row in DataLoader(rows, batch_size=2):
        print(net(row).shape)  # mistake

evaluate(torch.rand(4, 3))
""",
    ),
    "discarded": Program(
        "discarded-move",
        """\
import torch

def score(net, sample):
    sample.cuda()  # mistake
    return net(sample)

print(score(torch.nn.Linear(3, 1).cuda(), torch.rand(2, 3)))
""",
    ),
    "target": Program(
        "target-not-moved",
        """\
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

net = torch.nn.Linear(3, 4).to("cuda")
data = TensorDataset(torch.rand(6, 3), torch.randint(0, 4, (6,)))
for features, kinds in DataLoader(data, batch_size=3):
    features = features.to("cuda")
    F.cross_entropy(net(features), kinds).backward()  # mistake
""",
    ),
    "attribute": Program(
        "unregistered-tensor",
        """\
import torch

class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        self.scale = torch.linspace(0, 1, 4)  # mistake

    def forward(self, x):
        y = self.fc(x)
        return y * self.scale

class Wrapper(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Scaled()

    def forward(self, x):
        return self.inner(x)

net = Wrapper().to("cuda")
net(torch.rand(2, 4, device="cuda"))
""",
    ),
    "factory": Program(
        "factory-without-device",
        """\
import torch

def causal(n):
    return torch.ones(n, n).tril()  # mistake

def attend(scores):
    return scores.masked_fill(causal(scores.size(-1)) == 0, -1e9)

print(attend(torch.rand(2, 3, 3, device="cuda")).shape)
""",
    ),
    "module": Program(
        "module-not-moved",
        """\
import torch

student = torch.nn.Linear(3, 2).to("cuda")
teacher = torch.nn.Linear(3, 2)  # mistake

def distil(x):
    return student(x) - teacher(x)

print(distil(torch.rand(2, 3, device="cuda")))
""",
    ),
    "list": Program(
        "module-in-container",
        """\
import torch

class Tower(torch.nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.entry = torch.nn.Linear(3, 3)
        self.floors = [torch.nn.Linear(3, 3) for _ in range(depth)]  # mistake

    def forward(self, x):
        x = self.entry(x)
        for floor in self.floors:
            x = floor(x)
        return x

Tower(2).to("cuda")(torch.rand(2, 3, device="cuda"))
""",
    ),
    "forward": Program(
        "module-built-in-forward",
        """\
import torch

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)

    def forward(self, x):
        return torch.nn.LayerNorm(3)(self.fc(x))  # mistake

Block().to("cuda")(torch.rand(2, 3, device="cuda"))
""",
    ),
    "table": Program(
        "index-on-other-device",
        """\
import torch

class Schedule:
    def __init__(self, steps):
        self.rates = torch.linspace(1, 0, steps)  # mistake

    def at(self, step):
        return self.rates[step]

print(Schedule(9).at(torch.tensor([1, 2], device="cuda")))
""",
    ),
    "sum": Program(
        "accumulator-on-cpu",
        """\
import torch

def total(batches):
    result = torch.zeros(3)  # mistake
    for batch in batches:
        result += batch.sum(0)
    return result

print(total([torch.rand(2, 3, device="cuda")]))
""",
    ),
    "numpy": Program(
        "numpy-on-gpu",
        """\
import torch

def curve(net, x):
    return net(x).detach().numpy()  # mistake

curve(torch.nn.Linear(2, 1).to("cuda"), torch.rand(3, 2, device="cuda"))
""",
    ),
    "copy": Program(
        "copy-left-behind",
        """\
import copy
import torch

class Average:
    def __init__(self, net):
        self.copy = copy.deepcopy(net)

    def update(self, net):
        with torch.no_grad():
            for mine, new in zip(self.copy.parameters(), net.parameters()):
                mine.mul_(0.9).add_(new, alpha=0.1)

net = torch.nn.Linear(3, 2)
average = Average(net)  # mistake
net.to("cuda")
average.update(net)
""",
    ),
    "default": Program(
        "device-argument-dropped",
        """\
import torch

def build(width, device="cpu"):
    return torch.nn.Sequential(torch.nn.Linear(width, 2)).to(device)

def main(device):
    net = build(3)  # mistake
    return net(torch.rand(2, 3, device=device))

main("cuda")
""",
    ),
    "pin": Program(
        "pinning-gpu-tensor",
        """\
import torch
from torch.utils.data import DataLoader

rows = torch.rand(6, 2).to("cuda")
loader = DataLoader(rows, batch_size=2, pin_memory=True)  # mistake
for row in loader:
    print(row.shape)
""",
    ),
    "generator": Program(
        "generator-on-other-device",
        """\
import torch

def noise(shape, generator):
    return torch.randn(shape, generator=generator, device="cuda")

source = torch.Generator().manual_seed(3)  # mistake
print(noise((2, 2), source))
""",
    ),
    "gradient": Program(
        "cpu-gradient",
        """\
import torch

class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return torch.full(grad.shape, 2.0)  # mistake

x = torch.rand(3, device="cuda", requires_grad=True)
Twice.apply(x).sum().backward()
""",
    ),
    "two gpus": Program(
        "cross-gpu-operands",
        """\
import torch
import torch.nn.functional as F

net = torch.nn.Linear(3, 2).to("cuda:1")
kinds = torch.tensor([0, 1]).to("cuda:0")  # mistake
out = net(torch.rand(2, 3, device="cuda:1"))
print(F.cross_entropy(out, kinds))
""",
        gpus=2,
    ),
    "optimizer": Program(
        "optimizer-state-left-behind",
        """\
import torch

net = torch.nn.Linear(3, 1)
optimizer = torch.optim.Adagrad(net.parameters())  # mistake
net.to("cuda")  # mistake
net(torch.rand(2, 3, device="cuda")).sum().backward()
optimizer.step()
""",
    ),
}  # fmt: skip
