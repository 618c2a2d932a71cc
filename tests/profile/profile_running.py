"""Runs a program's text on virtual GPUs with a recorder attached, all in this process."""

import itertools
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import samedevice
from samedevice.profile.cost import cost_model
from samedevice.profile.findings import diagnostics
from samedevice.profile.hooks import Hooks
from samedevice.profile.recorder import Recorder
from samedevice.profile.stacks import stack
from samedevice.profile.summary import Profile, summarise
from samedevice.virtual import activation, provenance, tags


def record(folder: Path, source: str, gpus: int = 1) -> Recorder:
    """The recorder of a run of `source`, which lies in `folder` as a file."""
    path = folder / "program.py"
    path.write_text(source, encoding="utf-8")
    clock = itertools.count()
    recorder = Recorder(lambda: float(next(clock)), stack, lambda: next(provenance._clock))
    space: dict[str, Any] = {"__name__": "__main__"}
    with ExitStack() as stacked:
        if activation.running() is None:  # entering takes longer than a small program
            stacked.enter_context(samedevice.virtual_gpus(gpus))
        running = activation.running()
        assert running is not None
        hooks = Hooks(recorder, running.engine, running.functions, tags.device_index, tags.tag_of)
        stacked.enter_context(hooks.attached())
        exec(compile(source, str(path), "exec"), space)
    return recorder


def profiled(folder: Path, source: str, gpus: int = 1) -> Profile:
    """The profile of a run."""
    return summarise(record(folder, source, gpus), cost_model())


def found(profile: Profile) -> list[tuple[str, int]]:
    """(rule, line) of each diagnostic."""
    return [(d.rule, d.location.line) for d in diagnostics(profile.by_caller)]
