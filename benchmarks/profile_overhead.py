"""What `samedevice profile` costs over `samedevice check`: milliseconds a step of a small transformer.

    python benchmarks/profile_overhead.py

The program is run in turn plainly, under `check` and under `profile`; the best of several runs counts.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """\
import time
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
device = "cuda" if torch.cuda.is_available() else "cpu"
layer = torch.nn.TransformerEncoderLayer(64, 4, 256, batch_first=True)
model = torch.nn.TransformerEncoder(layer, 2).to(device)
optimizer = torch.optim.AdamW(model.parameters())
loader = DataLoader(TensorDataset(torch.randn(120, 32, 64)), batch_size=4)
best, total = 1e9, 0.0
for _ in range(2):
    for (x,) in loader:
        start = time.perf_counter()
        loss = model(x.to(device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
        best = min(best, time.perf_counter() - start)
print("best", best * 1e3)
"""

ROUNDS = 3


def main() -> None:
    """Print one line a way of running."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "program.py"
        script.write_text(PROGRAM, encoding="utf-8")
        ways = {
            "plain": [sys.executable, str(script)],
            "check": [sys.executable, "-m", "samedevice", "check", str(script)],
            "profile": [sys.executable, "-m", "samedevice", "profile", str(script)],
        }
        best = dict.fromkeys(ways, float("inf"))
        for _ in range(ROUNDS):
            for name, command in ways.items():
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                found = re.search(r"best ([\d.]+)", done.stdout)
                assert found is not None, done.stderr
                best[name] = min(best[name], float(found[1]))
        for name, time in best.items():
            print(f"{name:8} {time:7.2f} ms a step   {time / best['check']:.2f} × check")


if __name__ == "__main__":
    main()
