"""`check --fix` inside the test process: the loop as it is, its runs without a process of their own."""

import contextlib
import io
import linecache
import random
import runpy
import sys
from pathlib import Path

import torch

from samedevice.cli.repair import Repair, Repaired
from samedevice.cli.trials import Files, Trial
from samedevice.model.outcome import Outcome
from samedevice.program import frames
from tests.virtual.diagnosing import diagnosis


class InProcess:
    """Runs one script again and again."""

    def __init__(self, script: Path, gpus: int) -> None:
        self.script = script
        self.gpus = gpus
        self.count = 0

    def check(self, *, show: bool = False) -> Trial:
        self.count += 1
        linecache.checkcache()
        frames._node_at.cache_clear()
        output = io.StringIO()
        raised: list[Exception] = []
        try:
            found, fixes = diagnosis(self.script, self.gpus, output=output, raised=raised)
        except Exception as error:
            outcome = Outcome("check", program=f"raised {type(error).__name__}: {error}")
            return Trial(2, output.getvalue().encode(), outcome)
        ended = f"raised {type(raised[0]).__name__}: {raised[0]}" if raised else "finished"
        outcome = Outcome("check", tuple(found), program=ended)
        return Trial(1 if found else 0, output.getvalue().encode(), outcome, fixes)

    def plain(self) -> Trial:
        output = io.StringIO()
        torch.manual_seed(0)
        random.seed(0)
        loaded = set(sys.modules)
        sys.path.insert(0, str(self.script.parent))
        try:
            with contextlib.redirect_stdout(output):
                runpy.run_path(str(self.script), run_name="__main__")
        except Exception as error:
            return Trial(1, output.getvalue().encode(), complaint=str(error))
        finally:
            sys.path.remove(str(self.script.parent))
            torch.set_default_device(None)
            for name in set(sys.modules) - loaded:
                if str(self.script.parent) in str(getattr(sys.modules[name], "__file__", "")):
                    del sys.modules[name]
        return Trial(0, output.getvalue().encode())


def repair(script: Path, gpus: int = 1, *, unsafe: bool = True) -> Repaired:
    """What `check --fix` comes to on a script, which is edited."""
    runs = InProcess(script, gpus)
    return Repair(runs, Files(str(script.parent)), unsafe=unsafe).repair(runs.check())
