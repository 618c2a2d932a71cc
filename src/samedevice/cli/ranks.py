"""`check --nproc-per-node N`: the ranks of a program, each on virtual GPUs, and one report of them all."""

import argparse
import glob
import json
import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from importlib.util import find_spec
from typing import Any

from samedevice.cli.fixing import ending_by_signal, words_for
from samedevice.cli.output import check_writable, write_report
from samedevice.cli.trials import python
from samedevice.model.errors import UserError
from samedevice.model.outcome import Outcome
from samedevice.processes import record as records
from samedevice.processes.summary import Summary, latest, summarise
from samedevice.program.running import Program, prepare


def check_ranks(program: Program, options: argparse.Namespace) -> int:
    """Run the program in several processes, write one report, return the exit status.

    Raises:
        UserError: the program cannot be run in several processes, or torch is missing.
    """
    started = time.monotonic()
    folder = os.getcwd()
    if program.target == "-" and not program.is_module:
        raise UserError("several processes need a file: a program from standard input can be read only once")
    if find_spec("torch") is None:
        raise UserError("virtual GPUs need PyTorch in this environment: install it (the CPU build is enough)")
    prepare(program)  # a program that is not there is said once, not by every rank
    output = options.output if options.output in (None, "-") else os.path.abspath(options.output)
    if output not in (None, "-"):
        check_writable(output)
    shared = records.new_folder()
    if not records.make(shared):
        raise UserError(f"cannot make `{shared}` for what the processes find")
    launch = Launch(program, options, shared)
    try:
        interrupted = launch.run()
        summary = launch.summary(interrupted, time.monotonic() - started)
    finally:
        launch.end()
        shutil.rmtree(shared, ignore_errors=True)
    if options.plain:
        return launch.status
    if options.html is not None:
        from samedevice.cli.output import write_file
        from samedevice.report.html import render_page

        write_file(os.path.abspath(options.html), render_page(summary.outcome, None, None, root=folder))
    if options.record is not None:
        with open(options.record, "wb") as stream:
            pickle.dump((summary.outcome, summary.fixes), stream)
    else:
        report(summary.outcome, options, output, folder)
    return summary.status


def report(outcome: Outcome, options: argparse.Namespace, output: str | None, root: str) -> None:
    """Write the report of all ranks."""
    write_report(outcome, options.format, output, root=root)


class Launch:
    """The processes of one run: an agent for each node, which starts the node's ranks.

    Attributes:
        status: 0 when every agent's ranks ended well.
    """

    def __init__(self, program: Program, options: argparse.Namespace, shared: str) -> None:
        self.options = options
        self.nodes = options.nnodes or 1
        self.per_node = options.nproc_per_node or 1
        self.gpus = options.gpus or self.per_node
        self.shared = shared
        self.status = 0
        self.agents: list[subprocess.Popen[bytes]] = []
        self._command = self._rank(program)
        self._alive, self._end_of_life = os.pipe()
        os.set_inheritable(self._alive, True)
        #: output of the ranks one after the other, so that two runs can be compared
        self.ordered = options.plain or options.record is not None

    def _rank(self, program: Program) -> list[str]:
        """The words that start one rank."""
        own = {"gpus": self.gpus, "no_progress": True, "nproc_per_node": None, "nnodes": None}
        options = argparse.Namespace(**{**vars(self.options), **own})
        words = ["--ranks", self.shared, *(["--plain"] if options.plain else [])]
        if options.record is not None:
            words.append("--seeded")
        if options.audit:
            words.append("--audit")
        if options.audit_at is not None:
            words += ["--audit-at", ":".join(map(str, options.audit_at))]
        return [*python("samedevice.cli"), "check", *words, *words_for(program, options)]

    def run(self) -> bool:
        """Start the agents and wait for them; says whether somebody interrupted them."""
        endpoint = f"localhost:{_free_port()}" if self.nodes > 1 else "localhost:0"
        run_id = str(uuid.uuid4())
        try:
            with ending_by_signal():
                for node in range(self.nodes):
                    self.agents.append(self._agent(node, endpoint, run_id))
                for agent in self.agents:
                    self.status = max(self.status, abs(agent.wait()))
            return False
        except KeyboardInterrupt:
            self.status = 130
            for agent in self.agents:
                if agent.poll() is None:
                    agent.send_signal(signal.SIGINT)
            for agent in self.agents:
                try:
                    agent.wait(20)
                except (subprocess.TimeoutExpired, KeyboardInterrupt):
                    pass  # `end` kills what is left
            return True

    def _agent(self, node: int, endpoint: str, run_id: str) -> subprocess.Popen[bytes]:
        launcher = [
            f"--nnodes={self.nodes}",
            f"--nproc-per-node={self.per_node}",
            "--rdzv-backend=c10d",
            f"--rdzv-endpoint={endpoint}",
            f"--rdzv-id={run_id}",
            "--local-addr=localhost",
            "--max-restarts=0",
        ]
        if self.nodes > 1:
            launcher.append(f"--rdzv-conf=is_host={int(node == 0)}")
        if self.ordered:
            launcher += ["--redirects=1", f"--log-dir={self._output(node)}"]
        settings = {
            "launcher": launcher,
            "command": self._command,
            "told": self._told(node),
            "alive": self._alive,
        }
        environment = {**os.environ}
        if self.per_node > 1:
            environment.setdefault("OMP_NUM_THREADS", "1")  # as torchrun does, with fewer words
        return subprocess.Popen(
            [*python("samedevice.cli.agent"), json.dumps(settings)],
            env=environment,
            pass_fds=(self._alive,),
            # Ctrl-C on the terminal reaches this process alone, which ends the others in order.
            start_new_session=True,
        )

    def _told(self, node: int) -> str:
        return os.path.join(self.shared, f"node-{node}.json")

    def _output(self, node: int) -> str:
        return os.path.join(self.shared, f"output-{node}")

    def summary(self, interrupted: bool, seconds: float) -> Summary:
        """What the ranks came to."""
        if self.ordered:
            for node in range(self.nodes):
                pattern = os.path.join(self._output(node), "*", "attempt_0", "*", "stdout.log")
                for path in sorted(glob.glob(pattern), key=lambda p: int(p.split(os.sep)[-2])):
                    with open(path, "rb") as stream:
                        shutil.copyfileobj(stream, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        exits: dict[int, int] = {}
        trouble = None
        for node in range(self.nodes):
            told = _told(self._told(node))
            exits |= {int(rank): code for rank, code in told.get("exits", {}).items()}
            trouble = trouble or told.get("trouble")
        return summarise(
            records.read(self.shared),
            gpus=self.gpus,
            world=self.nodes * self.per_node,
            exits=exits,
            trouble=trouble,
            interrupted=interrupted,
            seconds=seconds,
        )

    def end(self) -> None:
        """No process stays behind."""
        for agent in self.agents:
            if agent.poll() is None:
                agent.kill()
                agent.wait()
        for member in latest(records.read(self.shared)):
            if member.alive:
                try:
                    os.killpg(member.pid, signal.SIGKILL)
                except (ProcessLookupError, PermissionError):
                    pass  # it has just ended
        for end in (self._alive, self._end_of_life):
            os.close(end)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


def _told(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as stream:
            data: dict[str, Any] = json.load(stream)
            return data
    except (OSError, ValueError):
        return {}
