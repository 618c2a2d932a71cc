"""How long `samedevice` takes before it does anything: `--help`, its imports, and torch's own for comparison.

    python benchmarks/startup.py [--pairs N]

Each round starts every interpreter once, one after the other; the figures are medians over the rounds.
"""

import argparse
import subprocess
import sys
import time
from statistics import median

COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "samedevice --help": ["-m", "samedevice", "--help"],
    "import samedevice": ["-c", "import samedevice"],
    "import samedevice.lint": ["-c", "import samedevice.lint"],
    "import torch": ["-c", "import torch"],
    "a virtual GPU": ["-c", "import samedevice\nwith samedevice.virtual_gpus(): pass"],
}


def milliseconds(words: list[str]) -> float:
    """Milliseconds of one whole process."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - begin) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=11)
    args = parser.parse_args()
    rounds = [{name: milliseconds(words) for name, words in COMMANDS.items()} for _ in range(args.pairs)]
    print(f"Python {sys.version.split()[0]}, median of {args.pairs} rounds, whole processes")
    bare = median(r["python -c pass"] for r in rounds)
    for name in COMMANDS:
        whole = median(r[name] for r in rounds)
        print(f"{name:24} {whole:7.1f} ms  {whole - bare:+8.1f} ms over a bare interpreter")


if __name__ == "__main__":
    main()
