"""How fast `samedevice lint` is: one file, a large tree, the same again, and other tools on the same files.

    python benchmarks/lint_speed.py [--tree FOLDER] [--small FOLDER] [--rounds N] [--tools FOLDER]

The large tree is torch's own sources when none is given; `--small` takes a tree like torchvision's.
Others are run when found beside this Python, on the PATH or in the folder of `--tools`: ruff,
torchfix, torch-preflight. Times are the processor's; ratios are to `ast.parse` of the same files.
"""

import argparse
import ast
import gc
import importlib.util
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from statistics import median

ONE_FILE = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width: int = 64):
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, 10)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


def train(model, loader, device):
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(10):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""


def seconds(words: Sequence[str], cwd: Path | None = None, limit: float = 600) -> float:
    """Processor seconds of one whole process and its children, infinite when it does not end in time.

    What else the machine does weighs less on these than on the clock on the wall.
    """
    begin = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        subprocess.run(
            words, cwd=cwd, check=False, timeout=limit, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return float("inf")
    end = resource.getrusage(resource.RUSAGE_CHILDREN)
    return end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime


def sources(tree: Path) -> list[bytes]:
    """The contents of every Python file of the tree."""
    return [path.read_bytes() for path in sorted(tree.rglob("*.py"))]


def parse_all(contents: Sequence[bytes]) -> float:
    """Seconds of `ast.parse` of them, the collector of cycles off as it is in the linter."""
    gc.collect()
    gc.disable()
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for data in contents:
            try:
                ast.parse(data)
            except (SyntaxError, ValueError):
                continue
    took = time.process_time() - begin
    gc.enable()
    return took


def lint(*words: str) -> list[str]:
    return [sys.executable, "-m", "samedevice", "lint", "--format", "json", *words]


def one_file(rounds: int, folder: Path) -> None:
    """The whole process for one file, beside a bare interpreter."""
    (folder / "train.py").write_text(ONE_FILE, encoding="utf-8")
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "samedevice lint train.py": lint("--no-cache", "train.py"),
        "the same, kept result": lint("train.py"),
        "the same, as text": [sys.executable, "-m", "samedevice", "lint", "--no-cache", "train.py"],
    }
    for words in commands.values():
        seconds(words, folder)
    taken = [{name: seconds(words, folder) for name, words in commands.items()} for _ in range(rounds)]
    print(f"one file of {ONE_FILE.count(chr(10))} lines, whole process, {rounds} rounds (bar: 150 ms)")
    for name in commands:
        times = [one[name] * 1000 for one in taken]
        print(f"  {name:28} least {min(times):6.0f} ms, median {median(times):6.0f} ms")


def tree(folder: Path, rounds: int, work: Path) -> None:
    """A large tree: analysed, then the same again."""
    contents = sources(folder)
    lines = sum(data.count(b"\n") for data in contents)
    print(f"{folder}: {len(contents)} files, {lines:,} lines")
    cold, warm, parse = [], [], []
    for _ in range(rounds):
        parse.append(parse_all(contents))
        shutil.rmtree(work / "cache", ignore_errors=True)
        cold.append(seconds(lint("--jobs", "1", str(folder)), work))
        warm.append(seconds(lint("--jobs", "1", str(folder)), work))
    begin = time.perf_counter()
    seconds(lint("--no-cache", str(folder)), work)
    clock = time.perf_counter() - begin
    base = min(parse)
    print(f"  ast.parse of all             {base:7.2f} s")
    print(
        f"  lint, one process            {min(cold):7.2f} s = {min(cold) / base:.2f} x ast.parse (bar: 2.5)"
    )
    print(f"  lint, several processes      {clock:7.2f} s on the clock")
    print(f"  lint again, nothing changed  {min(warm):7.2f} s (bar: 1.5 s)")


def others(folder: Path, places: str, work: Path) -> None:
    """Other tools on the same files."""
    print(f"{folder.name}: whole processes on the same files")
    print(f"  samedevice lint              {seconds(lint('--no-cache', str(folder)), work):7.2f} s")
    print(f"  samedevice lint, kept        {warm(folder, work):7.2f} s")
    for name, words in {
        "ruff": ["check", "--no-cache", "--isolated", "--select", "E,F,W,B"],
        "torchfix": ["--select", "ALL"],
        "torch-preflight": ["check"],
    }.items():
        found = shutil.which(name, path=places)
        if found is None:
            print(f"  {name:28} not found")
            continue
        print(f"  {name:28} {seconds([found, *words, str(folder)], work):7.2f} s")


def warm(folder: Path, work: Path) -> float:
    """Seconds of the second of two runs."""
    seconds(lint(str(folder)), work)
    return seconds(lint(str(folder)), work)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tree", type=Path, help="a large tree (default: torch's sources)")
    parser.add_argument("--small", type=Path, help="a tree to compare tools on (torchvision's, say)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tools", default="", help="a folder in which other tools are")
    options = parser.parse_args()
    large = options.tree
    if large is None and (spec := importlib.util.find_spec("torch")) is not None and spec.origin:
        large = Path(spec.origin).parent
    places = os.pathsep.join([options.tools, str(Path(sys.executable).parent), os.environ["PATH"]])
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        os.environ["SAMEDEVICE_CACHE_DIR"] = str(work / "cache")
        # As installed: compiled once, whatever this environment says about writing byte code.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(work / "pycache")
        print(f"Python {sys.version.split()[0]}")
        one_file(options.rounds * 5, work)
        if large is not None:
            tree(large.resolve(), options.rounds, work)
        if options.small is not None:
            others(options.small.resolve(), places, work)


if __name__ == "__main__":
    main()
