"""`samedevice profile`: what a program moves over the bus, what it waits for, and what that costs."""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from samedevice.cli import Parser
from samedevice.cli.audits import Audits, add_options
from samedevice.cli.check import (
    TimeUp,
    _died_of_mismatch,
    _gpu_hint,
    _how_it_ended,
    _positive,
    _seconds,
    _size,
    _time_limit,
    gpus_of_node,
    split_words,
)
from samedevice.cli.membership import one_of_others
from samedevice.cli.output import wants_color, width_of, write_file
from samedevice.model.errors import UserError
from samedevice.model.outcome import Outcome
from samedevice.profile.cost import CostModel, cost_model
from samedevice.profile.recorder import Recorder
from samedevice.program.running import (
    Ending,
    Program,
    finish,
    prepare,
    program_from,
    run,
    show,
    without_own_frames,
)
from samedevice.report import render

DESCRIPTION = """\
Run a program and tell what crosses the bus: every copy between devices and every
wait for the GPU, by source line and step, with what it costs. On virtual GPUs
(the default) no GPU is needed and times are estimates; `--real` measures.
"""

EPILOG = """\
examples:
  samedevice profile train.py --epochs 1
  samedevice profile --max-batches 20 --html report.html train.py
  samedevice profile --pcie gen5x16 --format json --output after.json train.py
  samedevice diff before.json after.json
  torchrun --nproc-per-node 2 -m samedevice profile train.py     rank 0 is told

Options of samedevice stand before the script, options of the program after it.

exit status: 0 nothing to say, 1 something costs more than it need, 2 the program
could not run or failed for another reason
"""


def build_parser() -> argparse.ArgumentParser:
    """The command's options; what follows the script belongs to the program."""
    parser = Parser(
        prog="samedevice profile",
        usage="samedevice profile [OPTIONS] SCRIPT [ARGS ...]\n"
        "       samedevice profile [OPTIONS] -m MODULE [ARGS ...]",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--real", action="store_true", help="run on the real device and measure")
    add(
        "--gpus",
        type=_positive,
        default=None,
        metavar="N",
        help="number of virtual GPUs (default: 1, under torchrun one a process)",
    )
    add("--gpu-memory", type=_size, default=None, metavar="SIZE", help="memory of each virtual GPU, as 24GB")
    add(
        "--max-batches", type=_positive, default=None, metavar="K", help="end each DataLoader after K batches"
    )
    add("--time-limit", type=_seconds, default=None, metavar="S", help="stop after S seconds and report")
    add("--pcie", default="gen4x16", metavar="LINK", help="link of the cost model (default: gen4x16)")
    add("--pinned-rate", type=float, default=None, metavar="GB/S", help="rate of copies out of pinned memory")
    add(
        "--pageable-rate",
        type=float,
        default=None,
        metavar="GB/S",
        help="rate of copies out of pageable memory",
    )
    add("--format", choices=("text", "json", "sarif", "github"), default="text", help="form of the report")
    add("--output", default=None, metavar="FILE", help="write the report to FILE (`-`: standard output)")
    add("--perfetto", default=None, metavar="FILE", help="write a trace for ui.perfetto.dev to FILE")
    add_options(parser)
    add("program", nargs=argparse.REMAINDER, metavar="SCRIPT [ARGS ...]", help=argparse.SUPPRESS)
    return parser


def main(words: Sequence[str]) -> int:
    """Run the command; returns the exit status."""
    parser = build_parser()
    own, rest = split_words(parser, words)
    options = parser.parse_args(own)
    if options.real and options.max_batches:
        raise UserError("`--max-batches` works on virtual GPUs only; leave out `--real`")
    options.gpus = options.gpus or gpus_of_node()
    return profile(program_from(rest), options)


def profile(program: Program, options: argparse.Namespace) -> int:
    """Run and record the program, write the reports, return the exit status.

    Raises:
        UserError: the program does not exist or is not Python, torch or the real device is missing.
    """
    from samedevice.profile.findings import findings
    from samedevice.profile.summary import summarise

    cost = cost_model(options.pcie, options.pinned_rate, options.pageable_rate)
    started = time.monotonic()
    paths = {name: _absolute(getattr(options, name)) for name in ("output", "perfetto")}
    audits = Audits(options)
    folder = os.getcwd()
    prepared = prepare(program)
    with _recording(options, cost) as (recorder, notes):
        with audits.watching(), _time_limit(options.time_limit):
            ending = run(prepared)
            try:
                finish(ending)
            except KeyboardInterrupt as error:
                ending = Ending(error, 130)
        inventory = audits.finish(prepared.module, ending)
    found = summarise(recorder, cost, measured=options.real)
    _tell_failure(ending, options)
    told = findings(found.by_caller)
    outcome = Outcome(
        command="profile",
        diagnostics=told.diagnostics,
        suppressed=told.suppressed,
        virtual_gpus=None if options.real else options.gpus,
        program=_how_it_ended(ending, options.time_limit),
        notes=tuple(notes),
        seconds=time.monotonic() - started,
    )
    if one_of_others():
        outcome = replace(outcome, diagnostics=())  # ranks do the same: the first one tells of it
    else:
        audits.write_page(outcome, found, inventory, folder)
        _write(outcome, found, options, paths, folder)
    if isinstance(ending.exception, KeyboardInterrupt):
        return 130
    failed = ending.status != 0 and not isinstance(ending.exception, TimeUp)
    if failed and not _died_of_mismatch(ending.exception):
        return 2
    return 1 if outcome.diagnostics else 0


def _absolute(path: str | None) -> str | None:
    return path if path in (None, "-") else os.path.abspath(path)


@contextmanager
def _recording(options: argparse.Namespace, cost: CostModel) -> Iterator[tuple[Recorder, list[str]]]:
    """A recorder attached to virtual GPUs, or to the real device."""
    from samedevice.profile.stacks import stack

    notes: list[str] = []
    if options.real:
        from samedevice.profile.real import RealDevice

        recorder = Recorder(time.perf_counter, stack)
        with RealDevice(recorder).attached():
            yield recorder, notes
        return
    from samedevice.virtual import virtual_gpus

    with ExitStack() as stacked:
        engine = stacked.enter_context(
            virtual_gpus(
                options.gpus,
                "report",
                gpu_memory=options.gpu_memory,
                max_batches=options.max_batches,
            )
        )
        # Their modules import torch, which `virtual_gpus` has found to be there.
        from samedevice.profile.hooks import Hooks
        from samedevice.virtual import activation, provenance, tags

        recorder = Recorder(time.perf_counter, stack, lambda: next(provenance._clock))
        running = activation.running()
        assert running is not None
        stacked.enter_context(
            Hooks(recorder, engine, running.functions, tags.device_index, tags.tag_of).attached()
        )
        yield recorder, notes
        notes += engine.session.notes
        if engine.stepped_over:
            notes.append(
                f"{engine.stepped_over} device mismatches were stepped over; `samedevice check` tells them"
            )


def _tell_failure(ending: Ending, options: argparse.Namespace) -> None:
    if ending.exception is not None and not isinstance(ending.exception, TimeUp):
        show(without_own_frames(ending.exception))
    hint = None if options.real else _gpu_hint(ending.exception, options.gpus)
    if hint:
        print(f"samedevice: {hint}", file=sys.stderr)


def _write(
    outcome: Outcome,
    found: Any,
    options: argparse.Namespace,
    paths: dict[str, str | None],
    folder: str,
) -> None:
    if paths["perfetto"]:
        from samedevice.report.perfetto import render_trace

        write_file(paths["perfetto"], render_trace(found))
    output = paths["output"]
    target = sys.stdout if output == "-" else sys.stderr
    to_file = output not in (None, "-")
    text = render(
        outcome,
        options.format,
        color=not to_file and wants_color(target),
        width=80 if to_file else width_of(target),
        root=folder,
    )
    if options.format == "json":
        data = json.loads(text)
        data["profile"] = found.to_dict()
        text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    elif options.format == "text":
        from samedevice.report.traffic import render as render_table

        text = render_table(found, width=80 if to_file else width_of(target)) + "\n" + text
    if output is not None and output != "-":
        write_file(output, text)
    else:
        target.write(text)
        target.flush()
