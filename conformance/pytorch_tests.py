"""PyTorch's own tests, instantiated for "cuda", on virtual GPUs: a second jury beside the recorded calls.

    python conformance/pytorch_tests.py --tests DIRECTORY [FILE …] [--json OUT]

DIRECTORY is `test/` of PyTorch's repository, best at the tag of the torch that is installed. Each test runs in
a process of its own kind: one that kills its process is named, and the rest goes on. A test that fails is run
again for "cpu", without virtual GPUs: what fails there as well says nothing of us. The others are explained
by pytorch_reasons.toml, or are ours.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
FILES = (
    "test_indexing.py", "test_optim.py", "test_torch.py", "test_serialization.py", "test_autograd.py",
    "test_nn.py",
)  # fmt: skip
COLUMNS = ("run", "passed", "ours", "explained", "cpu too", "timed out", "crashed", "skipped")
#: what a message says of one call only
PARTICULARS = re.compile(r"\[[^\[\]]*\]$|0x[0-9a-f]+|-?\d+(\.\d+)?(e[-+]?\d+)?")
#: seconds beyond the limit of a test until its process is taken for hanging in C++
GRACE = 20


@dataclass
class Result:
    """What came of one test; `cpu` is the outcome of its counterpart, where it was asked for."""

    outcome: str
    reason: str = ""
    seconds: float = 0.0
    cpu: str = ""
    why: str = ""

    @property
    def column(self) -> str:
        """Where the test counts in the table."""
        if self.outcome in ("passed", "skipped"):
            return self.outcome
        if self.cpu not in ("", "passed", "skipped"):
            return "cpu too"
        if self.why:
            return "explained"
        return "ours" if self.outcome == "failed" else self.outcome


class Runner:
    """Runs tests of one file for one device."""

    def __init__(self, file: Path, device: str, options: argparse.Namespace) -> None:
        self.file = file
        self.device = device
        self.options = options

    def listed(self) -> list[str]:
        """The names of the tests.

        Raises:
            RuntimeError: the file cannot be imported.
        """
        events, log = self._work(["--list"], "")
        for event in events:
            if "tests" in event:
                return list(event["tests"])
        raise RuntimeError(f"{self.file.name} cannot be imported:\n{log[-2000:]}")

    def run(self, names: Iterable[str]) -> dict[str, Result]:
        """Run the tests, starting again behind each that kills the process."""
        left = list(names)
        found: dict[str, Result] = {}
        while left:
            events, log = self._work([], "\n".join(left))
            begun = None
            for event in events:
                if "begin" in event:
                    begun = event["begin"]
                elif "end" in event:
                    begun = None
                    found[event["end"]] = Result(event["outcome"], event["reason"], event["seconds"])
            if begun is not None:
                last = next((line for line in reversed(log.splitlines()) if line.strip()), "")
                found[begun] = Result("crashed", last[:300])
            elif not any("finished" in event for event in events):
                # It died between two tests, or before the first.
                found[left[0]] = Result("crashed", log[-300:])
            left = [] if any("finished" in event for event in events) else [n for n in left if n not in found]
        return found

    def _work(self, arguments: list[str], names: str) -> tuple[list[dict], str]:  # type: ignore[type-arg]
        options = self.options
        with tempfile.TemporaryDirectory() as folder:
            events = Path(folder, "events")
            log = Path(folder, "log")
            events.touch()
            command = [sys.executable, str(FOLDER / "pytorch_worker.py"), str(self.file), *arguments]
            command += [f"--events={events}", f"--device={self.device}", f"--timeout={options.timeout}"]
            command += [f"--gpus={options.gpus}", *(["--every-class"] if options.every_class else [])]
            with log.open("w") as output:
                process = subprocess.Popen(
                    command, cwd=folder, stdin=subprocess.PIPE, stdout=output, stderr=output, text=True,
                    start_new_session=True, env={**os.environ, "PYTHONFAULTHANDLER": "1"},
                )  # fmt: skip
                assert process.stdin is not None
                process.stdin.write(names)
                process.stdin.close()
                size = -1
                while True:
                    try:
                        process.wait(options.timeout + GRACE)
                        break
                    except subprocess.TimeoutExpired:
                        if events.stat().st_size == size:
                            os.killpg(process.pid, signal.SIGKILL)
                        size = events.stat().st_size
            lines = [json.loads(line) for line in events.read_text().splitlines() if line.endswith("}")]
            return lines, log.read_text(errors="replace")


def on_cpu(name: str) -> str:
    """The counterpart of a test for "cuda"."""
    cls, _, method = name.partition(".")
    if not cls.endswith("CUDA"):
        return name
    head, found, tail = method.rpartition("_cuda")
    return f"{cls.removesuffix('CUDA')}CPU." + (f"{head}_cpu{tail}" if found else method)


def explain(results: dict[str, Result]) -> None:
    """Say why the tests fail that cannot pass without a GPU."""
    reasons = tomllib.loads((FOLDER / "pytorch_reasons.toml").read_text())["reason"]
    for name, result in results.items():
        if result.outcome in ("passed", "skipped"):
            continue
        for reason in reasons:
            if re.search(reason.get("test", ""), name) and re.search(
                reason.get("message", ""), result.reason
            ):
                result.why = reason["why"]
                break


def spread(names: list[str], most: int) -> list[str]:
    """At most so many of the names, evenly over all; every one of them if `most` is 0."""
    step = -(-len(names) // most) if most else 1
    return names[::step]


def judge(file: Path, options: argparse.Namespace) -> dict[str, Result]:
    """Run one file for "cuda", and what failed for "cpu"."""
    runner = Runner(file, "cuda", options)
    names = spread([name for name in runner.listed() if re.search(options.only, name)], options.sample)
    chunks = [names[i : i + options.chunk] for i in range(0, len(names), options.chunk)]
    results: dict[str, Result] = {}
    with ThreadPoolExecutor(options.processes) as pool:
        for found in pool.map(runner.run, chunks):
            results.update(found)
            print(f"{file.name}: {len(results)} of {len(names)}", file=sys.stderr)
    failed = [name for name, result in results.items() if result.outcome not in ("passed", "skipped")]
    if failed:
        cpu = Runner(file, "cpu", options)
        try:
            there = set(cpu.listed())
        except RuntimeError as error:
            print(f"not compared with the CPU: {error}", file=sys.stderr)
            there = set()
        outcomes = cpu.run([on_cpu(name) for name in failed if on_cpu(name) in there])
        for name in failed:
            if on_cpu(name) in outcomes:
                results[name].cpu = outcomes[on_cpu(name)].outcome
    explain(results)
    return results


def table(all_results: dict[str, dict[str, Result]]) -> str:
    """Outcomes by file, then failures by reason."""
    lines = [f"{'file':<28}" + "".join(f"{column:>11}" for column in COLUMNS)]
    for file, results in all_results.items():
        counts = Counter(result.column for result in results.values())
        counts["run"] = len(results) - counts["skipped"]
        lines.append(f"{file:<28}" + "".join(f"{counts[column]:>11}" for column in COLUMNS))
    explained: Counter[str] = Counter()
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for file, results in all_results.items():
        for name, result in results.items():
            if result.column == "explained":
                explained[result.why] += 1
            elif result.column in ("ours", "timed out", "crashed"):
                message = PARTICULARS.sub("#", result.reason)[:160]
                groups[f"{result.column}: {message}"].append(f"{file}::{name}")
    if explained:
        lines += ["", "explained:", *(f"{count:>6}  {why}" for why, count in explained.most_common())]
    if groups:
        lines += ["", "not explained:"]
        for message, names in sorted(groups.items(), key=lambda item: -len(item[1])):
            lines += [f"{len(names):>6}  {message}", *(f"          {name}" for name in names[:4])]
    return "\n".join(lines)


def main() -> int:
    """Run the files, print the table; 1 if something fails that nothing explains."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "files",
        nargs="*",
        default=FILES,
        metavar="FILE",
        help="the six of test/ that make tests for each device, unless given",
    )
    parser.add_argument("--tests", type=Path, required=True, help="test/ of PyTorch's repository")
    parser.add_argument("--only", default="", metavar="REGEX", help="tests whose Class.method matches")
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--chunk", type=int, default=200, help="tests a process")
    parser.add_argument("--timeout", type=int, default=30, help="seconds a test")
    parser.add_argument(
        "--sample", type=int, default=0, metavar="N", help="at most N tests a file, evenly spread"
    )
    parser.add_argument("--every-class", action="store_true", help="those that name no device too")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write each test's outcome")
    options = parser.parse_args()
    missing = [file for file in options.files if not (options.tests / file).is_file()]
    if missing:
        parser.error(
            f"no {', '.join(missing)} in {options.tests}: name `test/` of PyTorch's repository, and files of it"
        )
    all_results: dict[str, dict[str, Result]] = {}
    unreadable = False
    for file in options.files:
        try:
            all_results[file] = judge((options.tests / file).resolve(), options)
        except RuntimeError as error:
            print(error, file=sys.stderr)
            unreadable = True
            continue
        if options.json:
            data = {
                name: {test: asdict(result) for test, result in results.items()}
                for name, results in all_results.items()
            }
            options.json.write_text(json.dumps(data, indent=1))
    print(table(all_results))
    return int(
        unreadable
        or any(
            r.column in ("ours", "crashed", "timed out")
            for results in all_results.values()
            for r in results.values()
        )
    )


if __name__ == "__main__":
    sys.exit(main())
