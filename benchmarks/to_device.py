"""Time of `samedevice.to_device` against its peers on a nested batch of 200 small tensors.

    python benchmarks/to_device.py

Two cases: all tensors are there already (only the walk is paid), and all are moved to `meta`, where a
move costs nothing but PyTorch's own call. A bar is the best of many rounds taken in turn.
"""

import sys
import timeit
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "runtime"))


def batch() -> dict[str, Any]:
    """20 samples of 10 tensors in dicts, lists and tuples, with a number and a text each."""

    def t(n: int) -> torch.Tensor:
        return torch.zeros(n)

    return {
        f"sample{i}": {
            "frames": [t(4) for _ in range(5)],
            "box": (t(2), t(3)),
            "meta": {"x": t(1), "id": i, "name": "sample"},
            "y": t(1),
            "z": t(2),
        }
        for i in range(20)
    }


def main() -> None:
    """Print one line a case and mover."""
    import test_comparison

    torch.set_num_threads(1)
    data = batch()
    floor = [t for sample in data.values() for t in (*sample["frames"], *sample["box"])] * 2
    del floor[200:]
    for place in ("cpu", "meta"):
        device = test_comparison.META = torch.device(place)
        candidates = test_comparison.movers()
        if "ignite" in candidates:
            del candidates["ignite"]  # it refuses numbers
        candidates["(200 calls of Tensor.to in a list)"] = lambda _, device=device: [
            t.to(device) for t in floor
        ]
        best = dict.fromkeys(candidates, float("inf"))
        for _ in range(15):
            for name, move in candidates.items():
                best[name] = min(
                    best[name], timeit.timeit(lambda move=move: move(data), number=40) / 40 * 1e6
                )
        ours = best["samedevice"]
        print(f"to {place}:")
        for name, micros in best.items():
            print(f"  {name:36} {micros:8.1f} µs   {micros / ours:5.2f} × samedevice")


if __name__ == "__main__":
    main()
