"""Runs of a program for `check --fix`: each in a process of its own, on files that are put back at the end."""

import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from samedevice.model.errors import UserError
from samedevice.model.fix import Fix
from samedevice.model.outcome import Outcome
from samedevice.program import overlay
from samedevice.program.files import USER, kind_of
from samedevice.source.writing import write_atomically

#: folders of packages that some Python has installed, not necessarily this one
INSTALLED = frozenset({"site-packages", "dist-packages"})

#: the program must find what it finds under `samedevice check`: nothing of ours in front of `sys.path`
PATHS = "import sys; sys.path[0] = {scripts!r}; sys.path.append({ours!r}); "


def python(module: str) -> list[str]:
    """The words that run the `main` of one of our modules, before its arguments."""
    ours = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    code = PATHS.format(scripts=os.path.join(sys.prefix, "bin"), ours=ours)
    return [sys.executable, "-c", f"{code}from {module} import main; sys.exit(main(sys.argv[1:]))"]


@dataclass(frozen=True, slots=True)
class Trial:
    """One run.

    Attributes:
        status: the exit status of `samedevice check`, or of the program itself on the plain CPU.
        printed: the program's standard output.
        outcome: None when the run was cut off, and on the plain CPU.
        fixes: for each diagnostic of the outcome the edits to try, the best first.
        complaint: the last line of standard error, where that was captured.
    """

    status: int
    printed: bytes
    outcome: Outcome | None = None
    fixes: tuple[tuple[Fix, ...], ...] = ()
    complaint: str = ""

    @property
    def ended(self) -> str:
        """How the program ended."""
        return "" if self.outcome is None else self.outcome.program or ""


@dataclass(slots=True)
class Runner:
    """Starts runs of one program.

    Attributes:
        words: samedevice's options and the program, as on the command line.
        to_stderr: the first run's output is shown on standard error, because standard output has another use.
        environment: variables of each run.
    """

    words: Sequence[str]
    to_stderr: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    count: int = field(default=0, init=False)

    def check(self, *, show: bool = False) -> Trial:
        """A run on virtual GPUs; its output is shown on demand."""
        self.count += 1
        with tempfile.TemporaryDirectory(prefix="samedevice-") as folder:
            record = os.path.join(folder, "record")
            status, printed, complaint = self._start(["--record", record], show, {})
            try:
                with open(record, "rb") as stream:
                    outcome, fixes = pickle.load(stream)
            except (OSError, EOFError, pickle.UnpicklingError):
                return Trial(status, printed, complaint=complaint)
        return Trial(status, printed, outcome, fixes, complaint)

    def plain(self) -> Trial:
        """A run on the CPU, as without samedevice on a machine without a GPU."""
        hidden = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
        status, printed, complaint = self._start(["--plain"], False, hidden)
        return Trial(status, printed, complaint=complaint)

    def _start(
        self, extra: Sequence[str], show: bool, environment: Mapping[str, str]
    ) -> tuple[int, bytes, str]:
        """(exit status, standard output, last line of standard error)."""
        # Bytecode of an edit that is taken back again must not stay behind.
        settings = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
        settings |= {**self.environment, **environment}
        target = sys.stderr if self.to_stderr else sys.stdout
        if show and target.isatty():
            settings["PYTHONUNBUFFERED"] = "1"
        sys.stdout.flush()
        sys.stderr.flush()
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(
                [*python("samedevice.cli"), "check", *extra, *self.words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=None if show else errors,
                env=settings,
            )
            printed = []
            try:
                assert process.stdout is not None
                while chunk := os.read(process.stdout.fileno(), 1 << 16):
                    printed.append(chunk)
                    if show:
                        _write(target, chunk)
                status = process.wait()
            except BaseException:
                process.kill()
                process.wait()
                raise
            finally:
                if process.stdout is not None:
                    process.stdout.close()
            errors.seek(0)
            lines = errors.read().decode(errors="replace").strip().splitlines()
        return status, b"".join(printed), lines[-1] if lines else ""


def _write(target: object, chunk: bytes) -> None:
    """Bytes to a text stream, whatever it is."""
    buffer = getattr(target, "buffer", None)
    if buffer is not None:
        buffer.write(chunk)
        buffer.flush()
    else:
        target.write(chunk.decode(errors="replace"))  # type: ignore[attr-defined]


class Files:
    """The program's files: as they were, and as they are while edits are tried."""

    #: variables of the runs
    environment: Mapping[str, str] = {}
    writing = True

    def __init__(self, root: str) -> None:
        self.root = root
        self.began = time.time_ns()
        self.originals: dict[str, tuple[bytes, int]] = {}
        self.present: dict[str, bytes] = {}

    def full(self, path: str) -> str:
        """The absolute path of a report's path."""
        return os.path.join(self.root, path)

    def editable(self, path: str) -> bool:
        """Whether a file may be edited."""
        return self.obstacle(path) is None

    def obstacle(self, path: str) -> str | None:
        """Why a file is not edited, and what to do instead; None when it is the user's own and can be written."""
        full = os.path.realpath(self.full(path))
        root = os.path.join(os.path.realpath(self.root), "")
        if not os.path.isfile(full):
            return f"`{path}` is no file and is not edited"
        if kind_of(full) != USER or INSTALLED & set(full.split(os.sep)):
            return (
                f"`{path}` belongs to an installed package and is not edited; "
                "the call in your own code is the place for a remedy"
            )
        if not full.startswith(root):
            where = f"`{path}` is outside the working directory"
            if self.full(path).startswith(root):
                where = f"`{path}` is a link to a file outside the working directory"
            return f"{where} and is not edited; run from a folder above it to have it edited"
        if self.writing and not os.access(full, os.W_OK):
            return f"`{path}` is read-only and is not edited; `--diff` shows what would be"
        if path not in self.present and self.began < os.stat(full).st_mtime_ns <= time.time_ns():
            return f"`{path}` was changed while the program ran and is not edited; run it again"
        return None

    def read(self, path: str) -> bytes:
        """The present bytes of a file.

        Raises:
            UserError: it cannot be read.
        """
        if path not in self.present:
            full = self.full(path)
            try:
                with open(full, "rb") as stream:
                    data = stream.read()
                changed = os.stat(full).st_mtime_ns
            except OSError as error:
                raise UserError(f"cannot read `{path}`: {error.strerror or error}") from None
            if self.began < changed <= time.time_ns():
                raise UserError(
                    f"`{path}` was changed while the program ran; nothing is edited, run it again"
                )
            self.originals[path] = (data, changed)
            self.present[path] = data
        return self.present[path]

    def changed(self) -> dict[str, bytes]:
        """The present bytes of the files that are not as they were."""
        return {p: new for p, new in self.present.items() if new != self.originals[p][0]}

    def write(self, changed: Mapping[str, bytes]) -> None:
        """Make the files what they were, apart from those given.

        Raises:
            UserError: a file cannot be written, or somebody else has changed it; the others are as asked for.
        """
        failed = None
        for path in list(self.present):
            old, time = self.originals[path]
            new = changed.get(path, old)
            if new == self.present[path]:
                continue
            try:
                write_atomically(self.full(path), new, expected=self.present[path])
                if new == old:
                    os.utime(self.full(path), ns=(time, time))
            except OSError as error:
                failed = failed or UserError(f"cannot write `{path}`: {error.strerror or error}")
                continue
            self.present[path] = new
        if failed is not None:
            raise failed


class Unwritten(Files):
    """The same with nothing written to the program's files: the runs read the edited ones elsewhere."""

    writing = False

    def __init__(self, root: str, folder: str) -> None:
        super().__init__(root)
        self.folder = folder
        self.manifest = os.path.join(folder, "instead.json")
        self.environment = {overlay.VARIABLE: self.manifest}

    def write(self, changed: Mapping[str, bytes]) -> None:
        """What the next runs read in the place of the files."""
        instead = {}
        for number, path in enumerate(self.present):
            old, _ = self.originals[path]
            self.present[path] = new = changed.get(path, old)
            if new != old:
                real = os.path.realpath(self.full(path))
                copy = os.path.join(self.folder, f"{number}-{os.path.basename(real)}")
                with open(copy, "wb") as stream:
                    stream.write(new)
                instead[real] = copy
        with open(self.manifest, "w", encoding="utf-8") as text:
            json.dump(instead, text)
