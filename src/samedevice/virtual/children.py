"""Processes that come out of a program on virtual GPUs: they have them too, and tell what they find.

A forked child has everything already. Other children of Python are told through the environment
(`samedevice.inherit`), and through what `multiprocessing` sends to a process that it starts.
"""

import functools
import multiprocessing
import os
import shutil
import sys
import time
from dataclasses import replace
from multiprocessing import spawn, util
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final

from samedevice.model.fix import Fix
from samedevice.processes import record as records
from samedevice.processes import standing
from samedevice.processes.merging import merged
from samedevice.processes.record import Finding, ProcessRecord
from samedevice.processes.settings import VARIABLE, Settings
from samedevice.program import files
from samedevice.virtual.machine import GIB, Machine
from samedevice.virtual.patches import Patches

if TYPE_CHECKING:
    from samedevice.virtual.activation import Activation
    from samedevice.virtual.engine import Engine
    from samedevice.virtual.mismatches import Settlement
    from samedevice.virtual.refusal import Refusal

#: after everything that a process does at its end, queues emptied and children joined
LAST: Final = -100

#: run in a started child before it imports the main module
ARM: Final = """
import os, sys
os.environ[{variable!r}] = {settings!r}
try:
    from samedevice import inherit
except ImportError:
    sys.path.append({ours!r})
    from samedevice import inherit
inherit.arm()
"""


#: this process and its rank, once it had one
_last_rank: tuple[int, int] | None = None


class Reporter:
    """Stands before a diagnoser and leaves what it finds in a folder, as it is found.

    A process may be ended at any time, so nothing waits for its end.
    """

    def __init__(self, inner: Any, engine: "Engine", folder: str, owner: int) -> None:
        self.inner = inner
        self.engine = engine
        self.folder = folder
        self.owner = owner
        self.record = ProcessRecord(os.getpid(), time.time(), rank=rank_of_process())
        self.name = f"{self.record.pid}-{self.record.started:.3f}"
        self._told = 0
        self._problems = 0
        self._refused = False

    def __getattr__(self, name: str) -> Any:
        if name == "inner":
            raise AttributeError(name)  # a copy that is not filled yet
        return getattr(self.inner, name)

    def mismatch(self, refusal: "Refusal", frame: FrameType, engine: "Engine") -> "Settlement | None":
        """As the diagnoser's; a new mistake is written at once, a repeated one now and then."""
        settlement: Settlement | None = self.inner.mismatch(refusal, frame, engine)
        self._refused |= engine.on_mismatch == "raise" or not refusal.recoverable
        self._told += 1
        if self.inner.problems != self._problems or not self._told & (self._told - 1):
            self._problems = self.inner.problems
            self.write()
        return settlement

    def died(self, error: BaseException, engine: "Engine") -> bool:
        """As the diagnoser's; the record says so."""
        known: bool = self.inner.died(error, engine)
        if known:
            self._refused = True
            self.write()
        return known

    def adopt(self, name: str, record: ProcessRecord) -> None:
        """Go on with a record that this process has begun already."""
        self.name, self.record = name, record

    def write(self, **changes: Any) -> None:
        """Write the record as it is now, with `changes` of its fields."""
        rank = rank_of_process()
        self.record = replace(
            self.record,
            rank=self.record.rank if rank is None else rank,
            refused=self._refused,
            findings=tuple(f for f in findings_of(self.inner) if f[0].count),
            notes=tuple(self.engine.session.notes),
            **changes,
        )
        told = self.record.member or self.record.findings or self.record.notes
        # Who reads the records takes the folder away at its end; a process that outlives it makes no new one.
        if told and (os.path.isdir(self.folder) or not self.owner or records.is_alive(self.owner)):
            records.write(self.folder, self.name, self.record)


class Children:
    """What an entered block does for the processes that come out of it.

    Attributes:
        folder: where they leave their records; None when nobody is told of mismatches.
        reporter: writes this process's own record; None in the process that reports.
        standing: they may be asked where they stand.
        collected: records of a folder that has been taken away.
    """

    def __init__(self, activation: "Activation", folder: str | None) -> None:
        self.activation = activation
        self.engine = activation.engine
        self.count = activation.machine.count  # of all GPUs, whichever this process sees
        self.given = folder
        self.folder = folder
        self.reporter: Reporter | None = None
        self.standing = False
        self.collected: list[ProcessRecord] = []
        self._had_server = False
        #: the process that reads the folder
        self.reader = os.getpid() if folder is None else 0
        self._pid = os.getpid()

    def install(self, patches: Patches) -> None:
        """Hand the virtual GPUs on to every process started from now on."""
        global _last_rank
        _last_rank = None
        if self.engine.diagnoser is not None:
            if self.given is None:
                self.folder = records.new_folder()
            elif self.reporter is None:
                self._report()
        self._had_server = _server_runs()
        self.patches = patches
        patches.set_item(os.environ, VARIABLE, str(self.settings()))
        real = spawn.get_preparation_data

        def get_preparation_data(name: str) -> dict[str, Any]:
            data: dict[str, Any] = real(name)
            data["samedevice"] = Sent(str(self.settings()))
            return data

        patches.set(spawn, "get_preparation_data", get_preparation_data)
        patches.on_import("torch.distributed.distributed_c10d", functools.partial(_remember_rank, patches))
        util.register_after_fork(self, Children._started_by_multiprocessing)

    def refresh(self) -> None:
        """Tell of a machine that has changed."""
        self.count = self.activation.machine.count
        os.environ[VARIABLE] = str(self.settings())

    def tell_where_they_stand(self) -> None:
        """Let processes that are started from now on answer `standing.ask`."""
        self.standing = self.folder is not None
        self.refresh()

    def settings(self) -> Settings:
        """What a child needs to know now."""
        engine, machine = self.engine, self.activation.machine
        return Settings(
            count=self.count,
            on_mismatch=engine.on_mismatch,
            gpu_memory=machine.gpu_memory,
            max_batches=self.activation.max_batches,
            exact=engine.exact,
            folder=self.folder,
            owner=self.reader,
            start=files.START,
            standing=self.standing,
        )

    def leave(self) -> None:
        """Keep what the children have found; processes started later have nothing of this block."""
        if os.getpid() != self._pid:
            return
        if not self._had_server and _server_runs():
            _stop_server()
        if self.folder is not None and self.given is None:
            self.collected += records.read(self.folder)
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = None

    def records(self) -> list[ProcessRecord]:
        """What other processes of this block have left so far."""
        if self.folder is None or self.given is not None:
            return list(self.collected)
        return self.collected + records.read(self.folder)

    def findings(self) -> list[Finding]:
        """The mistakes of this process and its children, each once."""
        diagnoser = self.engine.diagnoser
        own = [] if diagnoser is None else findings_of(diagnoser)
        others = self.records()
        rank = rank_of_process()
        if rank is not None and any(record.rank is not None for record in others):
            own = [(replace(diagnostic, ranks=(rank,)), fixes) for diagnostic, fixes in own]
        return merged(own, others) if others else own

    def forked(self) -> None:
        """This process is a forked copy: what was found before the fork is its parent's."""
        machine = self.activation.machine
        if not machine.initialized:
            machine.pid = os.getpid()
        if self.folder is None or self.engine.diagnoser is None:
            return
        if self.standing:
            standing.answer(self.folder)
        if self.reporter is not None:
            self.engine.diagnoser = self.reporter.inner
        for mistake in getattr(self.engine.diagnoser, "mistakes", {}).values():
            mistake.count = 0
        self.engine.session.notes.clear()
        self._report()

    def _report(self) -> None:
        assert self.folder is not None
        self.reporter = Reporter(self.engine.diagnoser, self.engine, self.folder, self.reader)
        self.engine.diagnoser = self.reporter

    def _started_by_multiprocessing(self) -> None:
        if self.reporter is None:
            return
        util.Finalize(None, self.reporter.write, exitpriority=LAST)
        process = multiprocessing.current_process()
        run, reporter = process.run, self.reporter

        def watched() -> None:
            try:
                run()
            except Exception as error:
                # `multiprocessing` prints it and the parent goes on: nobody else would tell.
                reporter.died(error, reporter.engine)
                raise

        process.run = watched  # type: ignore[method-assign]


class Sent:
    """Goes along with what `multiprocessing` sends to a process; unpickling it arms the process."""

    def __init__(self, settings: str) -> None:
        self.settings = settings

    def __reduce__(self) -> tuple[Any, ...]:
        ours = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        return exec, (ARM.format(variable=VARIABLE, settings=self.settings, ours=ours), {})


def findings_of(diagnoser: Any) -> list[Finding]:
    """What a diagnoser has found, with the edits where it knows some."""
    diagnostics = diagnoser.diagnostics()
    fixes: tuple[tuple[Fix, ...], ...] = getattr(diagnoser, "fixes", tuple)()
    if len(fixes) != len(diagnostics):
        fixes = ((),) * len(diagnostics)
    return list(zip(diagnostics, fixes, strict=True))


def _remember_rank(patches: Patches, c10d: Any) -> None:
    """A program takes its process group down before it ends, and the report is written after that."""
    destroy = getattr(c10d, "destroy_process_group", None)
    if destroy is None:
        return

    @functools.wraps(destroy)
    def destroy_process_group(*args: Any, **kwargs: Any) -> Any:
        rank_of_process()
        return destroy(*args, **kwargs)

    for module in (c10d, sys.modules.get("torch.distributed")):
        if getattr(module, "destroy_process_group", None) is destroy:
            patches.set(module, "destroy_process_group", destroy_process_group)


def rank_of_process() -> int | None:
    """The rank of this process: of the process group that it has or had, or as a launcher has set it."""
    global _last_rank
    distributed = sys.modules.get("torch.distributed")
    try:
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            _last_rank = os.getpid(), int(distributed.distributed_c10d._get_default_group().rank())
    except (AttributeError, RuntimeError, ValueError):
        pass  # torch is being imported, or the group is being taken down
    if _last_rank is not None and _last_rank[0] == os.getpid():
        return _last_rank[1]
    rank = os.environ.get("RANK", "")
    return int(rank) if rank.isdigit() and os.environ.get("WORLD_SIZE", "").isdigit() else None


def enter_inherited(settings: Settings) -> None:
    """Enter the virtual GPUs of the parent process for the whole life of this one."""
    from samedevice.virtual.activation import Activation

    diagnoser: Any = None
    if settings.folder is not None:
        from samedevice.virtual.diagnose import Diagnoser

        diagnoser = Diagnoser()
    memory = 80 * GIB if settings.gpu_memory is None else settings.gpu_memory
    machine = Machine(count=settings.count, gpu_memory=memory)
    activation = Activation(
        machine,
        settings.on_mismatch,
        diagnoser,
        None,
        settings.max_batches,
        settings.exact,
        settings.folder,
    )
    activation.children.reader = settings.owner
    activation.children.standing = settings.standing
    if settings.standing and settings.folder is not None:
        standing.answer(settings.folder)
    activation.inherited = True
    activation.enter()
    util.Finalize(None, _end, args=(activation,), exitpriority=LAST)
    if diagnoser is not None:
        _watch_death(activation)


def _end(activation: "Activation") -> None:
    from samedevice.virtual.activation import running

    if activation.children.reporter is not None:
        activation.children.reporter.write()
    if running() is activation:
        activation.leave()


def _watch_death(activation: "Activation") -> None:
    """A program that dies of a check in torch's own Python code has met a device mistake, too."""
    before = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        reporter = activation.children.reporter
        if isinstance(error, Exception) and reporter is not None:
            try:
                if activation.engine.active and reporter.inner.died(error, activation.engine):
                    reporter._refused = True
            except Exception:
                pass  # the program's own traceback is what counts
        before(kind, error, traceback)

    sys.excepthook = excepthook


def _server_runs() -> bool:
    server = getattr(sys.modules.get("multiprocessing.forkserver"), "_forkserver", None)
    return getattr(server, "_forkserver_pid", None) is not None


def _stop_server() -> None:
    """The server that forks processes has virtual GPUs as its children had; the next one has none."""
    server = getattr(sys.modules.get("multiprocessing.forkserver"), "_forkserver", None)
    try:
        server._stop()  # type: ignore[union-attr]
    except (AttributeError, OSError):
        pass  # another Python's server; it ends with this process


def _in_child() -> None:
    from samedevice.virtual.activation import running

    activation = running()
    if activation is not None:
        activation.children.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
