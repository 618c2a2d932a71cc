"""Training steps of whole models: plain CPU, a virtual GPU, and PyTorch's FakeTensorMode.

    python benchmarks/models.py [--pairs N] [--only NAME ...]

ResNet-18 at batch 32, GPT-2 small forward and backward, an LSTM layer and the same recurrence written as a loop
over an `LSTMCell`. Plain and virtual steps take turns in one process; the ratio is the median over the pairs.

FakeTensorMode computes nothing, so its time is bookkeeping alone. On a PyTorch without CUDA it
cannot train on "cuda" (the first operation that records a graph ends the process), so its step runs
on its "cpu" tensors: one step after one that fills its caches.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

import samedevice

Step = Callable[[], None]


class Residual(nn.Module):
    """ResNet's basic block."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(inplace=True),
            nn.Conv2d(after, after, 3, 1, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(
                nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
            )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu_(self.body(x) + self.shortcut(x))


def resnet18() -> nn.Module:
    """ResNet-18 for images of 32 x 32, as for CIFAR."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    before = 64
    for after, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Residual(before, after, stride), Residual(after, after, 1)]
        before = after
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


class Block(nn.Module):
    """GPT-2's block: attention and a feed-forward layer, each behind a norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.attention, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.attention(self.norms[0](x)).split(width, dim=2)
        q, k, v = (p.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for p in parts)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(functional.gelu(self.wide(self.norms[1](x)), approximate="tanh"))


class GPT2(nn.Module):
    """GPT-2 small: 12 layers of width 768, 124 million parameters, tied embeddings."""

    def __init__(self, layers: int = 12, width: int = 768, heads: int = 12, words: int = 50257) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(words, width), nn.Embedding(1024, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def train_resnet() -> Step:
    """Forward, backward, SGD with momentum; batch 32."""
    model = resnet18()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    x, y = torch.randn(32, 3, 32, 32), torch.randint(10, (32,))

    def step() -> None:
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


def run_gpt2() -> Step:
    """Forward and backward of 2 sequences of 32 tokens."""
    model = GPT2()
    ids = torch.randint(50257, (2, 33))

    def step() -> None:
        model.zero_grad()
        logits = model(ids[:, :-1])
        functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).backward()

    return step


def train_lstm() -> Step:
    """Two layers of 256, 64 steps of time, batch 16; forward, backward, AdamW."""
    model = nn.ModuleList([nn.LSTM(64, 256, 2, batch_first=True), nn.Linear(256, 10)])
    optimizer = torch.optim.AdamW(model.parameters())
    x, y = torch.randn(16, 64, 64), torch.randint(10, (16,))

    def step() -> None:
        optimizer.zero_grad()
        functional.cross_entropy(model[1](model[0](x)[0][:, -1]), y).backward()
        optimizer.step()

    return step


def train_cells() -> Step:
    """The recurrence as a Python loop over 64 steps of time: many small operations."""
    model = nn.ModuleList([nn.LSTMCell(64, 256), nn.Linear(256, 10)])
    optimizer = torch.optim.AdamW(model.parameters())
    x, y = torch.randn(16, 64, 64), torch.randint(10, (16,))

    def step() -> None:
        h = c = x.new_zeros(16, 256)
        for moment in x.unbind(1):
            h, c = model[0](moment, (h, c))
        optimizer.zero_grad()
        functional.cross_entropy(model[1](h), y).backward()
        optimizer.step()

    return step


#: each makes its model and its data on the default device
MODELS: dict[str, Callable[[], Step]] = {
    "ResNet-18, batch 32": train_resnet,
    "GPT-2 small, 2 x 32": run_gpt2,
    "LSTM, 64 moments": train_lstm,
    "LSTMCell in a loop": train_cells,
}


def seconds(device: str, make: Callable[[], Step], count: int) -> float:
    """Seconds for one of `count` steps of a fresh model on `device`, after two that nobody counts.

    A model is made on its device, because FakeTensorMode cannot move one.
    """
    torch.manual_seed(0)
    with torch.device(device):
        step = make()
    step()
    step()
    begin = time.perf_counter()
    for _ in range(count):
        step()
    return (time.perf_counter() - begin) / count


def compare(make: Callable[[], Step], pairs: int) -> tuple[float, float, float]:
    """Median seconds of a plain step; median ratios to it of a virtual and of a fake step."""
    count = max(2, min(8, int(0.4 / seconds("cpu", make, 1))))
    times, virtual, fake = [], [], []
    for number in range(pairs):
        # Each goes first every other time: memory that one of them gives back makes the next one faster.
        if number % 2:
            times.append(seconds("cpu", make, count))
        with samedevice.virtual_gpus(1):
            virtual.append(seconds("cuda", make, count))
        if not number % 2:
            times.append(seconds("cpu", make, count))
        with FakeTensorMode():
            fake.append(seconds("cpu", make, 1))
    return (
        median(times),
        median(v / t for v, t in zip(virtual, times, strict=True)),
        median(f / t for f, t in zip(fake, times, strict=True)),
    )


def bar(plain: float) -> float | None:
    """The design's bar for a step of `plain` seconds; none is set for steps shorter than 14 ms."""
    return 1.1 if plain >= 0.1 else 1.3 if plain >= 0.014 else None


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--only", nargs="*", default=(), help="models whose name begins so")
    args = parser.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, 1 thread, median of {args.pairs} interleaved rounds")
    for name, make in MODELS.items():
        if args.only and not name.startswith(tuple(args.only)):
            continue
        plain, virtual, fake = compare(make, args.pairs)
        limit = bar(plain)
        verdict = "" if limit is None else f"  bar {limit} x  {'held' if virtual <= limit else 'missed'}"
        print(
            f"{name:20}  plain {1000 * plain:6.1f} ms  virtual {virtual:5.2f} x plain"
            f"  FakeTensorMode (on cpu) {fake:5.2f} x plain{verdict}",
            flush=True,
        )


if __name__ == "__main__":
    main()
