"""The cost of one operation: plain, on a virtual GPU, and under PyTorch's FakeTensorMode.

    python benchmarks/per_operation.py [--pairs N]

Eight floats, forward only, one thread: nearly all of the time is the cost of looking at the call.
The three take turns in one process; the figures are medians.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import samedevice

CALLS = 2000
BAR = 1 / 4


def operations(device: str) -> dict[str, Callable[[], object]]:
    """The measured operations with their operands on `device`."""
    x, y, square = (
        torch.randn(8, device=device),
        torch.randn(8, device=device),
        torch.randn(8, 8, device=device),
    )
    row = torch.randn(1, 8, device=device)
    return {"add": lambda: x + y, "mm": lambda: torch.mm(row, square), "view": lambda: x.view(2, 4)}


def microseconds(operation: Callable[[], object]) -> float:
    """Microseconds of one call."""
    for _ in range(CALLS // 20):
        operation()
    begin = time.perf_counter()
    for _ in range(CALLS):
        operation()
    return (time.perf_counter() - begin) / CALLS * 1e6


def measure() -> dict[str, tuple[float, float, float]]:
    """Microseconds of each operation: plain, virtual, fake."""
    plain = {name: microseconds(operation) for name, operation in operations("cpu").items()}
    with samedevice.virtual_gpus(1):
        virtual = {name: microseconds(operation) for name, operation in operations("cuda").items()}
    with FakeTensorMode():
        fake = {name: microseconds(operation) for name, operation in operations("cuda").items()}
    return {name: (plain[name], virtual[name], fake[name]) for name in plain}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=9)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    rounds = [measure() for _ in range(args.pairs)]
    print(
        f"torch {torch.__version__}, 1 thread, 8 floats, forward only, median of {args.pairs} interleaved rounds"
    )
    for name in rounds[0]:
        plain, virtual, fake = (median(r[name][i] for r in rounds) for i in range(3))
        ratio = median(r[name][1] / r[name][2] for r in rounds)
        verdict = "held" if ratio <= BAR else "missed"
        print(
            f"{name:5}  plain {plain:5.1f} us  virtual {virtual:5.1f} us  FakeTensorMode {fake:5.1f} us  "
            f"virtual/fake {ratio:4.2f}  bar {BAR}  {verdict}"
        )


if __name__ == "__main__":
    main()
