"""Running a program as `python` would: `__main__`, `sys.argv`, `sys.path[0]`, `-m`, exit handlers."""

import atexit
import importlib.machinery
import importlib.util
import io
import itertools
import os
import runpy
import sys
import threading
import types
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, TracebackType

from samedevice.model.errors import UserError


@dataclass(frozen=True, slots=True)
class Program:
    """What to run: a script with its arguments, or a module (`-m`)."""

    target: str
    args: tuple[str, ...] = ()
    is_module: bool = False

    def __str__(self) -> str:
        return f"-m {self.target}" if self.is_module else self.target


@dataclass(slots=True)
class Prepared:
    """A program that is compiled and ready: nothing of it has run yet."""

    code: CodeType
    module: types.ModuleType
    argv: list[str]
    path0: str


def prepare(program: Program) -> Prepared:
    """Find and compile the program.

    Raises:
        UserError: there is no such script or module, or it is not Python.
    """
    return _prepare_module(program) if program.is_module else _prepare_script(program)


def _prepare_script(program: Program) -> Prepared:
    script = program.target
    if script == "-":
        source, filename, path0 = sys.stdin.buffer.read(), "<stdin>", ""
    else:
        path = Path(script)
        if path.is_dir() or (path.is_file() and _is_zip(path)):
            return _prepare_container(program)
        try:
            with io.open_code(str(path.absolute())) as stream:
                source = stream.read()
        except FileNotFoundError:
            raise UserError(f"there is no file `{script}`") from None
        except OSError as error:
            raise UserError(f"cannot read `{script}`: {error.strerror or error}") from None
        filename, path0 = os.path.abspath(script), os.path.dirname(os.path.realpath(script))
    code = _compile(source, filename, script)
    module = _main_module(filename)
    if script == "-":
        del module.__file__
    else:
        module.__dict__["__loader__"] = importlib.machinery.SourceFileLoader("__main__", script)
    return Prepared(code, module, [script, *program.args], path0)


def _is_zip(path: Path) -> bool:
    import zipfile

    return zipfile.is_zipfile(path)


def _prepare_container(program: Program) -> Prepared:
    """A folder or zip archive with a `__main__.py`."""
    container = program.target
    finder = importlib.machinery.PathFinder.find_spec("__main__", [os.path.abspath(container)])
    if finder is None or finder.loader is None:
        raise UserError(f"there is no `__main__.py` in `{container}`; name the script to run")
    code = finder.loader.get_code("__main__")  # type: ignore[attr-defined]
    module = _main_module(str(finder.origin))
    module.__dict__.update(__spec__=finder, __loader__=finder.loader, __package__="")
    return Prepared(code, module, [container, *program.args], container)


def _prepare_module(program: Program) -> Prepared:
    name = program.target
    # `python -m` looks in the working directory first.
    sys.path.insert(0, os.getcwd())
    try:
        try:
            _, spec, code = runpy._get_module_details(name)  # type: ignore[attr-defined]
        except SyntaxError as error:
            raise UserError(_syntax_message(error, name)) from None
        except ImportError as error:
            missing = getattr(error, "name", None)
            if missing and missing != name and not name.startswith(f"{missing}."):
                raise UserError(
                    f"`{name}` needs the package `{missing}`, which is not installed here"
                ) from None
            raise UserError(f"cannot run `-m {name}`: {error}") from None
    finally:
        del sys.path[0]
    module = _main_module(str(spec.origin))
    module.__dict__.update(
        __spec__=spec,
        __loader__=spec.loader,
        __package__=spec.parent,
        __cached__=spec.cached,
    )
    return Prepared(code, module, [str(spec.origin), *program.args], os.getcwd())


def _compile(source: bytes, filename: str, shown: str) -> CodeType:
    try:
        return compile(source, filename, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise UserError(_syntax_message(error, shown)) from None
    except ValueError as error:
        # Null bytes; a SyntaxError only since Python 3.11.4.
        raise UserError(f"`{shown}` is not valid Python: {error}") from None


def _syntax_message(error: SyntaxError, shown: str) -> str:
    where = f"line {error.lineno}: " if error.lineno else ""
    return f"`{shown}` is not valid Python: {where}{error.msg}"


def _main_module(filename: str) -> types.ModuleType:
    module = types.ModuleType("__main__")
    module.__dict__.update(
        __file__=filename,
        __builtins__=__builtins__,
        __cached__=None,
        __package__=None,
        __spec__=None,
        __annotations__={},
    )
    return module


@dataclass(slots=True)
class Ending:
    """How a program ended.

    Attributes:
        exception: what escaped from it, None when it ran to its end.
        status: the exit status that `python` would return.
    """

    exception: BaseException | None = None
    status: int = 0


def run(prepared: Prepared) -> Ending:
    """Run the program to its end, its threads and exit handlers included.

    Its exception is returned, not raised and not printed; `sys.argv`, `sys.path` and `__main__`
    stay as the program left them, because its threads, exit handlers and pickles still need them.
    """
    sys.argv[:] = prepared.argv
    sys.path[0:1] = [prepared.path0]
    sys.modules["__main__"] = prepared.module
    ending = Ending()
    try:
        exec(prepared.code, prepared.module.__dict__)
    except SystemExit as leaving:
        ending = Ending(leaving, _exit_status(leaving))
    except BaseException as error:
        ending = Ending(error, 130 if isinstance(error, KeyboardInterrupt) else 1)
    return ending


def finish(ending: Ending) -> None:
    """What the interpreter does after the main program: other threads end, exit handlers run."""
    if "concurrent.futures.thread" in sys.modules:
        # Its worker threads wait for this call, which the interpreter would make only later.
        sys.modules["concurrent.futures.thread"]._python_exit()
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            pass  # closed or replaced by the program


def _exit_status(leaving: SystemExit) -> int:
    if leaving.code is None:
        return 0
    return leaving.code & 0xFF if isinstance(leaving.code, int) else 1


def without_own_frames(error: BaseException) -> BaseException:
    """The exception with samedevice's frames taken out of its tracebacks, and its causes' too."""
    own = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        current = pending.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        current.__traceback__ = _filtered(current.__traceback__, own)
        pending += [current.__cause__, current.__context__]
        if isinstance(current, BaseExceptionGroup):
            pending += current.exceptions
    return error


def _filtered(traceback: TracebackType | None, own: str) -> TracebackType | None:
    kept: list[TracebackType] = []
    while traceback is not None:
        if not traceback.tb_frame.f_code.co_filename.startswith(own):
            kept.append(traceback)
        traceback = traceback.tb_next
    for outer, inner in itertools.pairwise(kept):
        outer.tb_next = inner
    if kept:
        kept[-1].tb_next = None
    return kept[0] if kept else None


def show(error: BaseException) -> None:
    """Print the program's own traceback as `python` would, through its own `sys.excepthook`."""
    if isinstance(error, SystemExit):
        if error.code is not None and not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
        return
    sys.excepthook(type(error), error, error.__traceback__)


def program_from(words: Sequence[str]) -> Program:
    """A `Program` from the words after a command's own options."""
    if words and words[0] == "-m":
        if len(words) < 2:
            raise UserError("`-m` needs a module's name")
        return Program(words[1], tuple(words[2:]), is_module=True)
    if not words:
        raise UserError("name the program to run: a script, or `-m MODULE`")
    return Program(words[0], tuple(words[1:]))
