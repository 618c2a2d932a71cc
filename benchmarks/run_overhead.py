"""What `samedevice run` costs a program that does not crash: start, and a training loop.

    python benchmarks/run_overhead.py [ROUNDS]

Compares `samedevice run SCRIPT`, and `samedevice run --trace SCRIPT`, with `python SCRIPT` in turn, by processor time, so that other
work on the machine counts for neither. Prints the medians, their difference and their ratio; `torch imported` says whether
samedevice imported torch into a program that does not.
"""

import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

EMPTY = "import sys; print('torch' in sys.modules)\n"

TRAINING = """
import time, torch
torch.manual_seed(0); torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
optimizer = torch.optim.AdamW(model.parameters())
x, y = torch.randn(64, 256), torch.randint(0, 10, (64,))
for step in range(1200):
    if step == 200:
        began = time.process_time()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
print(time.process_time() - began)
"""

PLAIN = [sys.executable]
RUN = [sys.executable, "-m", "samedevice", "run"]
TRACED = [*RUN, "--trace"]


def once(words: list[str], script: Path) -> tuple[float, str]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([*words, str(script)], capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout.strip()


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 11
    with tempfile.TemporaryDirectory() as folder:
        empty, training = Path(folder, "empty.py"), Path(folder, "training.py")
        empty.write_text(EMPTY)
        training.write_text(TRAINING)
        starts: tuple[list[float], list[float]] = ([], [])
        for _ in range(2 * rounds):
            starts[0].append(once(PLAIN, empty)[0])
            starts[1].append(once(RUN, empty)[0])
        plain, run = (statistics.median(s) * 1000 for s in starts)
        print(
            f"start: python {plain:.1f} ms, samedevice run {run:.1f} ms, {run - plain:.1f} ms more (bar: 50)"
        )
        print(f"torch imported: {once(RUN, empty)[1]}")
        ways = {"python": PLAIN, "samedevice run": RUN, "samedevice run --trace": TRACED}
        rows = [{way: float(once(words, training)[1]) for way, words in ways.items()} for _ in range(rounds)]
        for way in ways:
            ratio = statistics.median(row[way] / row["python"] for row in rows)
            bar = {"samedevice run": " (bar: 1.01)", "samedevice run --trace": " (no bar: slower by design)"}
            print(
                f"1000 steps: {way} {statistics.median(row[way] for row in rows):.3f} s, "
                f"ratio {ratio:.3f}{bar.get(way, '')}"
            )


if __name__ == "__main__":
    main()
