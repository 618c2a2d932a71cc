"""Virtual GPUs against the plain CPU: a training step of a two-layer transformer, forward, backward, AdamW.

    python benchmarks/overhead.py [--pairs N]

Plain and virtual steps take turns in one process, each pair beside the other in time, so that a
noisy machine disturbs both alike; the ratio is the median over the pairs.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median

import torch
from torch import nn

import samedevice

#: name -> (width, length, batch, steps a pair, bar of the design)
SIZES = {
    "14 ms a step": (128, 44, 8, 8, 1.3),
    "100 ms a step": (256, 64, 16, 3, 1.1),
}


def make_step(device: str, width: int, length: int, batch: int) -> Callable[[], None]:
    """A function that trains a fresh two-layer transformer on `device` for one step."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    x = torch.randn(batch, length, width).to(device)
    target = torch.randn(batch, length, width).to(device)

    def step() -> None:
        loss = nn.functional.mse_loss(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def seconds(step: Callable[[], None], count: int) -> float:
    """Seconds for one of `count` steps."""
    begin = time.perf_counter()
    for _ in range(count):
        step()
    return (time.perf_counter() - begin) / count


def compare(
    width: int, length: int, batch: int, steps: int, pairs: int, **options: str
) -> tuple[float, float]:
    """Median seconds of a plain step, and median ratio of a virtual one to the plain one beside it."""
    plain = make_step("cpu", width, length, batch)
    plain()
    times, ratios = [], []
    for _ in range(pairs):
        with samedevice.virtual_gpus(1, **options):
            virtual = make_step("cuda", width, length, batch)
            virtual()
            with_gpus = seconds(virtual, steps)
        without = seconds(plain, steps)
        times.append(without)
        ratios.append(with_gpus / without)
    return median(times), median(ratios)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=15)
    args = parser.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, 1 thread, median of {args.pairs} interleaved pairs")
    for name, (width, length, batch, steps, bar) in SIZES.items():
        plain, ratio = compare(width, length, batch, steps, args.pairs)
        verdict = "held" if ratio <= bar else "missed"
        print(
            f"{name:14}  plain {1000 * plain:6.1f} ms  virtual {ratio:5.2f} x plain  bar {bar} x  {verdict}"
        )


if __name__ == "__main__":
    main()
