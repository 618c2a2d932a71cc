"""Programs that users of a framework write, run inside the test process with and without virtual GPUs."""

import contextlib
import io
import linecache
import random
import runpy
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from samedevice.cli.check import _died_of_mismatch
from samedevice.model.diagnostic import Diagnostic
from samedevice.virtual import virtual_gpus
from samedevice.virtual.diagnose import Diagnoser

EXAMPLES = Path(__file__).parents[2] / "examples" / "frameworks"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a program printed, what was found in it, and its variables at the end."""

    printed: str
    diagnostics: list[Diagnostic]
    variables: dict[str, Any]


def run(script: Path, gpus: int | None = None, *, exact: bool = False) -> Outcome:
    """Run a program; `gpus=None` runs it without virtual GPUs, on the plain CPU."""
    diagnoser = Diagnoser()
    printed = io.StringIO()
    variables: dict[str, Any] = {}
    with _as_main(script), contextlib.ExitStack() as stack:
        engine = None
        if gpus is not None:
            engine = stack.enter_context(virtual_gpus(gpus, "report", diagnoser=diagnoser, exact=exact))
        try:
            with contextlib.redirect_stdout(printed):
                variables = runpy.run_path(str(script), run_name="__main__")
        except Exception as error:
            # An exception of PyTorch's own for a mismatch is part of the outcome.
            if engine is None or (not _died_of_mismatch(error) and not diagnoser.died(error, engine)):
                raise
        return Outcome(printed.getvalue(), diagnoser.diagnostics(), variables)


def assert_runs_as_on_the_cpu(example: str, gpus: int = 1) -> None:
    """The example prints the numbers of the CPU on virtual GPUs, and nothing is found in it."""
    script = EXAMPLES / f"{example}.py"
    on_cpu, on_gpu = run(script), run(script, gpus)

    assert on_gpu.printed == on_cpu.printed
    assert on_gpu.diagnostics == []


def found(source: str, folder: Path, gpus: int = 1) -> list[Diagnostic]:
    """The diagnostics of a program given as text."""
    script = folder / "program.py"
    script.write_text(source, encoding="utf-8")
    linecache.checkcache(str(script))
    return run(script, gpus).diagnostics


def line_of(source: str, marker: str = "# mistake") -> int:
    """The line of the program that carries the marker."""
    return next(number for number, line in enumerate(source.splitlines(), 1) if marker in line)


@contextlib.contextmanager
def _as_main(script: Path) -> Iterator[None]:
    """The surroundings that a program started from the command line finds."""
    loaded, before, threads = set(sys.modules), sys.argv, torch.get_num_threads()
    deterministic = torch.are_deterministic_algorithms_enabled()
    sys.path.insert(0, str(script.parent))
    sys.argv = [str(script)]
    # The order of sums depends on the number of threads.
    torch.set_num_threads(1)
    torch.manual_seed(0)
    random.seed(0)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(deterministic)
        sys.argv = before
        _forget_accelerators()
        sys.path.remove(str(script.parent))
        for name in set(sys.modules) - loaded:
            if str(script.parent) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]


def _forget_accelerators() -> None:
    """Frameworks keep what they found: accelerate in a process-wide state, diffusers in a cache."""
    state = sys.modules.get("accelerate.state")
    if state is not None:
        state.AcceleratorState._reset_state(True)
        state.GradientState._reset_state()
    found = sys.modules.get("diffusers.utils.torch_utils")
    backend = getattr(found, "TorchDeviceBackend", None)
    if backend is not None:
        backend._detect_device_type.cache_clear()
