"""Peak memory of training programs under `samedevice check` against the same programs run plainly.

    python benchmarks/memory.py [--rounds N]

Each program runs in a process of its own, in turn `python PROGRAM` and `samedevice check PROGRAM`; the figure is
the peak of its resident memory. What is there before training (Python, torch, and with `check` samedevice's
own modules) is measured by a program that trains one tiny layer for one step, shown, and taken
off both sides: it is the same for a small program and for a large one.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path
from statistics import median

BAR = 1.2

HEAD = f"""\
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import torch
from torch.nn import functional as F
torch.set_num_threads(1)
torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
# What a first step of any training imports and allocates.
layer = torch.nn.Linear(2, 2).to(device)
optimizer = torch.optim.AdamW(layer.parameters())
layer(torch.randn(4, 2, device=device)).sum().backward()
optimizer.step()
"""

PROGRAMS = {
    "ResNet-18, batch 32, 6 steps": """
from models import resnet18
model = resnet18().to(device)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(6):
    x, y = torch.randn(32, 3, 32, 32).to(device), torch.randint(10, (32,)).to(device)
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
""",
    "GPT-2 small, 4 steps": """
from models import GPT2
model = GPT2().to(device)
for _ in range(4):
    ids = torch.randint(50257, (2, 33)).to(device)
    model.zero_grad()
    F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()).backward()
""",
    "LSTMCell, 200 steps": """
cell, head = torch.nn.LSTMCell(64, 256).to(device), torch.nn.Linear(256, 10).to(device)
optimizer = torch.optim.AdamW([*cell.parameters(), *head.parameters()])
for _ in range(200):
    x, y = torch.randn(16, 64, 64).to(device), torch.randint(10, (16,)).to(device)
    h = c = x.new_zeros(16, 256)
    for moment in x.unbind(1):
        h, c = cell(moment, (h, c))
    optimizer.zero_grad()
    F.cross_entropy(head(h), y).backward()
    optimizer.step()
""",
}

#: tensors that stay alive, as in a replay buffer: what is remembered of each counts
KEPT = 50_000
MANY = f"""
kept = [torch.randn(256, device=device) * 2 for _ in range({KEPT})]
"""


def peak(words: list[str], program: Path) -> float:
    """Megabytes of resident memory that a process needs at its highest."""
    sys.stdout.flush()
    process = os.fork()
    if process == 0:
        os.chdir(program.parent)
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        os.execv(sys.executable, [sys.executable, *words, str(program)])
    _, status, usage = os.wait4(process, 0)
    if status:
        raise SystemExit(f"{' '.join(words)} {program} ended with status {os.waitstatus_to_exitcode(status)}")
    scale = 1 if sys.platform == "darwin" else 1024
    return usage.ru_maxrss * scale / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    ways = {"python": [], "check": ["-m", "samedevice", "check"]}
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "program.py")

        def peaks(text: str) -> dict[str, float]:
            program.write_text(HEAD + text, encoding="utf-8")
            return {
                way: median(peak(words, program) for _ in range(args.rounds)) for way, words in ways.items()
            }

        base = peaks("")
        print(f"Python {sys.version.split()[0]}, median of {args.rounds} rounds, peak resident memory")
        print(f"before training: python {base['python']:.0f} MB, samedevice check {base['check']:.0f} MB")
        for name, text in PROGRAMS.items():
            found = peaks(text)
            grown = {way: found[way] - base[way] for way in ways}
            ratio = grown["check"] / grown["python"]
            verdict = "held" if ratio <= BAR else "missed"
            print(
                f"{name:30}  python {found['python']:6.0f} MB  check {found['check']:6.0f} MB  "
                f"training alone {ratio:4.2f} x  bar {BAR} x  {verdict}",
                flush=True,
            )
        found = peaks(MANY)
        more = (found["check"] - base["check"] - found["python"] + base["python"]) * 1e6 / KEPT
        print(f"each tensor that stays alive: {more:.0f} bytes more, whatever its size")


if __name__ == "__main__":
    main()
