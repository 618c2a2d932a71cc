"""Runs another project's tests without and with virtual GPUs, and shows what became of each test.

usage: python conformance/other_projects.py [--gpus N] [--time-limit S] [--keep FOLDER] CHECKOUT [PYTEST ARGUMENTS]

CHECKOUT is the project's source tree; it is the working directory and comes first on the path of
imports. What follows goes to pytest: paths of tests, `-k`, `-n 2`, `--deselect` …
The table counts tests by what they did without (rows) and with (columns) virtual GPUs; below it stands
each test that fails with them and did not fail without.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

OUTCOMES = ("passed", "failed", "skipped", "not run")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one test did: one of `OUTCOMES`, and why where it did not pass."""

    kind: str
    why: str = ""


def outcomes_of(file: Path) -> dict[str, Outcome]:
    """The outcome of each test in a JUnit file."""
    found: dict[str, Outcome] = {}
    if not file.exists():
        return found
    for case in ElementTree.parse(file).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        outcome = Outcome("passed")
        for child in case:
            if child.tag in ("failure", "error"):
                outcome = Outcome("failed", child.get("message") or "")
            elif child.tag == "skipped" and outcome.kind == "passed":
                outcome = Outcome("skipped", child.get("message") or "")
        # A test and its finalizer are two entries of one name: the worse counts.
        if name not in found or found[name].kind == "passed":
            found[name] = outcome
    return found


def run(
    checkout: Path, words: Sequence[str], gpus: int, limit: float, file: Path
) -> tuple[dict[str, Outcome], str]:
    """One run of the tests; the outcomes, which `file` holds, and how it ended in a sentence."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(import_path(checkout))}
    command = [sys.executable, "-m", "pytest", f"--junitxml={file}", "-p", "no:cacheprovider", *words]
    if gpus:
        command.append(f"--virtual-gpus={gpus}")
    started = time.monotonic()
    try:
        done = subprocess.run(
            command, cwd=checkout, env=environment, timeout=limit, check=False, capture_output=True, text=True
        )
        ending = (done.stdout.strip().splitlines() or [f"exit status {done.returncode}"])[-1].strip("= ")
        if done.returncode not in (0, 1) or not file.exists():
            ending += f" (exit status {done.returncode})\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    except subprocess.TimeoutExpired:
        ending = f"stopped after {limit:g} s"
    return outcomes_of(file), f"{ending} [{time.monotonic() - started:.0f} s]"


def import_path(checkout: Path) -> list[str]:
    """Folders whose packages stand for the installed ones."""
    folders = [checkout / "src", checkout] if (checkout / "src").is_dir() else [checkout]
    before = os.environ.get("PYTHONPATH")
    return [*(str(folder) for folder in folders), *([before] if before else [])]


def table(without: dict[str, Outcome], with_gpus: dict[str, Outcome]) -> str:
    """Tests counted by their outcomes in both runs, as a Markdown table."""
    missing = Outcome("not run")
    counts = Counter(
        (without.get(name, missing).kind, with_gpus.get(name, missing).kind) for name in without | with_gpus
    )
    lines = ["| without \\ with | " + " | ".join(OUTCOMES) + " | all |", "| --- " * (len(OUTCOMES) + 2) + "|"]
    for row in OUTCOMES:
        numbers = [counts[row, column] for column in OUTCOMES]
        if sum(numbers):
            lines.append(f"| {row} | " + " | ".join(map(str, numbers)) + f" | {sum(numbers)} |")
    totals = [sum(counts[row, column] for row in OUTCOMES) for column in OUTCOMES]
    lines.append("| all | " + " | ".join(map(str, totals)) + f" | {sum(totals)} |")
    return "\n".join(lines)


def new_failures(without: dict[str, Outcome], with_gpus: dict[str, Outcome]) -> str:
    """The tests that fail with virtual GPUs only, by their reason."""
    missing = Outcome("not run")
    by_reason: dict[str, list[str]] = {}
    for name, outcome in sorted(with_gpus.items()):
        before = without.get(name, missing).kind
        if outcome.kind == "failed" and before != "failed":
            reason = " ".join(outcome.why.split())[:200]
            by_reason.setdefault(reason, []).append(f"{name} ({before} without)")
    return "\n".join(
        f"{len(names)} x {reason}\n    " + "\n    ".join(names)
        for reason, names in sorted(by_reason.items(), key=lambda item: -len(item[1]))
    )


def main(words: Sequence[str]) -> int:
    """Run both, print the table; 0 when nothing fails that did not fail without."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpus", type=int, default=2, metavar="N", help="virtual GPUs (default: 2)")
    parser.add_argument(
        "--time-limit", type=float, default=600, metavar="S", help="of each run (default: 600)"
    )
    parser.add_argument(
        "--keep",
        type=Path,
        default=None,
        metavar="FOLDER",
        help="leave both runs' JUnit files there; a run without virtual GPUs that is there is not made again",
    )
    parser.add_argument("checkout", type=Path)
    parser.add_argument("pytest", nargs=argparse.REMAINDER)
    options = parser.parse_args(words)
    checkout = options.checkout.resolve()
    if not checkout.is_dir():
        parser.error(f"no folder {options.checkout}: name a checkout of a project")
    with tempfile.TemporaryDirectory() as folder:
        kept = options.keep.resolve() if options.keep else Path(folder)
        kept.mkdir(exist_ok=True)
        before, after = kept / "without.xml", kept / "with.xml"
        if before.exists():
            without, ending = outcomes_of(before), f"{before}, of an earlier run"
        else:
            without, ending = run(checkout, options.pytest, 0, options.time_limit, before)
        print(f"without: {ending}", flush=True)
        with_gpus, ending = run(checkout, options.pytest, options.gpus, options.time_limit, after)
    print(f"with {options.gpus} virtual GPUs: {ending}\n\n{table(without, with_gpus)}\n")
    failures = new_failures(without, with_gpus)
    print(failures or "no test fails that does not fail without virtual GPUs")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
