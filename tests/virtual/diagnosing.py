"""Running a program on virtual GPUs inside the test process, and what was found in it."""

import contextlib
import io
import random
import runpy
import sys
from pathlib import Path

import torch

from samedevice.cli.check import _died_of_mismatch
from samedevice.model.diagnostic import Diagnostic
from samedevice.model.fix import Fix
from samedevice.virtual import virtual_gpus
from samedevice.virtual.diagnose import Diagnoser


def diagnose(script: Path, gpus: int = 1, *, exact: bool = False) -> list[Diagnostic]:
    """The diagnostics of a script; an exception of PyTorch's own is part of the result."""
    return diagnosis(script, gpus, exact=exact)[0]


def diagnosis(
    script: Path,
    gpus: int = 1,
    *,
    exact: bool = False,
    output: io.StringIO | None = None,
    raised: list[Exception] | None = None,
) -> tuple[list[Diagnostic], tuple[tuple[Fix, ...], ...]]:
    """The diagnostics of a script with the edits that may take each of them out.

    What it prints goes to `output`, the mistake that it died of to `raised`.
    """
    diagnoser = Diagnoser()
    loaded = set(sys.modules)
    sys.path.insert(0, str(script.parent))
    torch.manual_seed(0)
    random.seed(0)
    before = sys.argv
    sys.argv = [str(script)]
    try:
        with virtual_gpus(gpus, "report", diagnoser=diagnoser, exact=exact) as engine:
            try:
                with contextlib.redirect_stdout(output if output is not None else io.StringIO()):
                    runpy.run_path(str(script), run_name="__main__")
            except Exception as error:
                if not _died_of_mismatch(error) and not diagnoser.died(error, engine):
                    raise
                if raised is not None:
                    raised.append(error)
            finally:
                torch.set_default_device(None)
    finally:
        sys.argv = before
        sys.path.remove(str(script.parent))
        for name in set(sys.modules) - loaded:
            if str(script.parent) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]
    return diagnoser.diagnostics(), diagnoser.fixes()
