"""Virtual GPUs against a real one: the same calls on both, verdict, words and places compared.

    python conformance/gpu_check.py [--budget SECONDS] [--json OUT]

needs a GPU and the project installed beside its CUDA build of torch. The real side and the virtual side run
in processes of their own; one that a device-side assertion ends is started again behind that call. What the
budget does not suffice for is counted as not run. With `--virtual` a virtual GPU stands for the real one, which
proves the script where there is none.
"""

import argparse
import contextlib
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

#: the CUDA context is gone, and every later call fails
BROKEN = re.compile("CUDA error|device-side assert|CUBLAS_STATUS|CUDNN_STATUS_EXECUTION")
#: a library behind CUDA's kernels that this machine cannot open says nothing of devices
BEYOND = re.compile("NOT_INITIALIZED|NOT_SUPPORTED|out of memory|TimeoutError")
SECONDS_A_CALL = 20


class Late(BaseException):
    """A call ran too long."""


def work(side: str, only: str, journal: Path) -> None:
    """Make the calls that the journal lacks and write down what comes of each, from the process for one side."""
    warnings.simplefilter("ignore")
    done = {json.loads(line)[0] for line in journal.read_text().splitlines()}
    with contextlib.ExitStack() as stack, journal.open("a") as out:
        if side == "virtual":
            import samedevice

            stack.enter_context(samedevice.virtual_gpus(1))
        import torch
        from probes import probes

        torch.set_num_threads(2)  # which convolution the CPU would take depends on it
        signal.signal(signal.SIGALRM, _late)
        for probe in probes(1, only):
            if probe.name in done:
                continue
            out.write(json.dumps([probe.name, None, probe.recorded]) + "\n")
            out.flush()
            signal.alarm(SECONDS_A_CALL)
            try:
                outcome = probe.run()
                if side == "real":
                    torch.cuda.synchronize()
            except Late:
                outcome = "TimeoutError: "
            except Exception as error:
                outcome = f"{type(error).__name__}: {(str(error) or ' ').splitlines()[0]}"
            signal.alarm(0)
            out.write(json.dumps([probe.name, outcome, probe.recorded]) + "\n")
            out.flush()
            if side == "real" and BROKEN.search(outcome):
                return
        out.write(json.dumps(["", "finished", ""]) + "\n")


def _late(*_: Any) -> None:
    raise Late


def drive(side: str, only: str, journal: Path, deadline: float) -> bool:
    """Run the processes of one side until all calls are made; False when the time did not suffice."""
    journal.touch()
    command = [sys.executable, __file__, "--work", side, "--only", only, "--json", str(journal)]
    while time.monotonic() < deadline:
        before = journal.stat().st_size
        try:
            process = subprocess.run(
                command, check=False, timeout=deadline - time.monotonic(), capture_output=True, text=True
            )
        except subprocess.TimeoutExpired:
            return False
        if outcomes(journal).get("") == "finished":
            return True
        if journal.stat().st_size == before:
            raise SystemExit(f"the {side} side does not start:\n{process.stderr[-2000:]}")
        print(f"{side}: starting again after {process.returncode}", file=sys.stderr)
    return False


def outcomes(journal: Path) -> dict[str, str]:
    """Call → outcome; a call that ended its process is "crashed"."""
    lines = [json.loads(line) for line in journal.read_text().splitlines() if line.endswith("]")]
    return {name: outcome or "crashed" for name, outcome, _ in lines}


def refused(outcome: str) -> bool:
    """Whether an outcome is an exception."""
    return ":" in outcome or outcome == "crashed"


def compare(ours: dict[str, str], truth: dict[str, str]) -> tuple[Counter[str], list[list[str]]]:
    """Numbers of calls that agree in verdict, words and places, and the calls that do not."""
    count: Counter[str] = Counter()
    different = []
    for name, expected in truth.items():
        got = ours.get(name)
        if not name or got is None or BEYOND.search(expected) or BEYOND.search(got):
            count["left out"] += bool(name)
            continue
        count["calls"] += 1
        same_verdict = refused(got) == refused(expected)
        count["verdict"] += same_verdict
        if same_verdict and refused(expected):
            count["refusals"] += 1
            count["words"] += got == expected
        elif same_verdict and expected != "accepted":
            count["results"] += 1
            count["places"] += got == expected
        if got != expected and not (expected == "accepted" and not refused(got)):
            different.append([name, expected, got])
    return count, different


def percent(part: int, whole: int) -> float:
    """With two digits; of nothing, all of it."""
    return round(100 * part / whole, 2) if whole else 100.0


def summary(count: Counter[str]) -> dict[str, float]:
    """Shares in percent."""
    return {
        "calls": count["calls"],
        "verdict": percent(count["verdict"], count["calls"]),
        "words": percent(count["words"], count["refusals"]),
        "places": percent(count["places"], count["results"]),
    }


def main() -> int:
    """Compare, print one line, write the JSON; 1 below the bars."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--budget", type=float, default=420, help="seconds for everything")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write shares and differences")
    parser.add_argument("--only", default="", metavar="REGEX", help="calls whose name matches")
    parser.add_argument("--virtual", action="store_true", help="a virtual GPU stands for the real one")
    parser.add_argument("--work", choices=["real", "virtual"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work, options.only, options.json)
        return 0
    begin = time.monotonic()
    deadline = begin + options.budget
    with tempfile.TemporaryDirectory() as folder:
        journals = [Path(folder, side) for side in ("truth", "ours")]
        sides = ["virtual" if options.virtual else "real", "virtual"]
        with ThreadPoolExecutor(2) as pool:
            runs = [
                pool.submit(drive, side, options.only, journal, deadline)
                for side, journal in zip(sides, journals, strict=True)
            ]
            complete = all(run.result() for run in runs)
        truth, ours = map(outcomes, journals)
        recorded = {
            name: known
            for name, _, known in map(json.loads, journals[1].read_text().splitlines())
            # They were recorded with two GPUs.
            if known and "invalid device ordinal" not in truth.get(name, "")
        }
    count, different = compare(ours, truth)
    shares = summary(count)
    known = summary(compare(truth, recorded)[0])
    data: dict[str, Any] = {
        "seconds": round(time.monotonic() - begin),
        "complete": complete,
        "machine": machine(options.virtual),
        "against": "a virtual GPU" if options.virtual else "a real GPU",
        **shares,
        "left_out": count["left out"],
        "recorded": known,
        "different": different,
        "different_from_recorded": compare(truth, recorded)[1],
    }
    if options.json:
        options.json.write_text(json.dumps(data, separators=(",", ":"), ensure_ascii=False))
    print(
        f"{data['calls']} calls on {data['machine']}{'' if complete else ', not all in the time'}: "
        f"verdict {data['verdict']} %, words {data['words']} %, places {data['places']} %; "
        f"against the {known['calls']} recorded ones {known['verdict']}, {known['words']}, {known['places']} %"
    )
    for name, expected, got in different[:20]:
        print(f"  {name}\n    there: {expected}\n    here:  {got}")
    return int(shares["verdict"] < 99.8 or shares["words"] < 99 or shares["places"] < 99.9)


def machine(virtual: bool) -> str:
    """The torch and GPU that the numbers are of."""
    import torch

    name = "a virtual GPU" if virtual or not torch.cuda.is_available() else torch.cuda.get_device_name(0)
    return f"{name}, torch {torch.__version__}"


if __name__ == "__main__":
    sys.exit(main())
