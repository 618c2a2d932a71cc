"""After a crash: explains device errors below the traceback; costs nothing before one.

`samedevice.install()`, `samedevice run`, `SAMEDEVICE=1` in the environment and the notebook
extension all end here. Nothing heavy is imported until an exception arrives.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TextIO

_previous: dict[str, Any] = {}
_options: dict[str, Any] = {"language": None, "traced": False}

#: set on an exception that was explained already, so that it is explained once
EXPLAINED = "_samedevice_explained"
#: an extension may collect diagnostics instead of reading the text
listeners: list[Callable[[Any], None]] = []


def install(*, language: str | None = None, traced: bool = False) -> None:
    """Explain device errors below their tracebacks: in the main thread and in others.

    The hooks that were there stay in charge: the exception, its traceback and the exit status are
    what they were. Calling it twice does no harm; `uninstall` takes it back.

    Args:
        language: "en" or "de"; from the locale when None.
        traced: births of tensors are being recorded, so a longer run would not tell more.
    """
    _options.update(language=language, traced=traced)
    if _previous:
        return
    _previous["sys"] = sys.excepthook
    _previous["threading"] = threading.excepthook
    _previous["unraisable"] = sys.unraisablehook
    sys.excepthook = _excepthook
    threading.excepthook = _threading_hook
    sys.unraisablehook = _unraisable_hook
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is not None:
        # IPython shows tracebacks itself; no exception of a cell reaches the hooks.
        from samedevice.notebook import load_ipython_extension

        load_ipython_extension(shell)


def uninstall() -> None:
    """Put the hooks back that `install` found, where nobody has replaced ours since."""
    if not _previous:
        return
    if sys.excepthook is _excepthook:
        sys.excepthook = _previous["sys"]
    if threading.excepthook is _threading_hook:
        threading.excepthook = _previous["threading"]
    if sys.unraisablehook is _unraisable_hook:
        sys.unraisablehook = _previous["unraisable"]
    _previous.clear()


def _excepthook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    before = _previous.get("sys", sys.__excepthook__)
    if before is not sys.__excepthook__:
        # A logger's or framework's hook prints the exception in its own way: the note goes along.
        add_note(error)
    before(kind, error, traceback)
    explain_to(error)


def _threading_hook(args: Any) -> None:
    _previous.get("threading", threading.__excepthook__)(args)
    if args.exc_value is not None:
        explain_to(args.exc_value)


def _unraisable_hook(args: Any) -> None:
    _previous.get("unraisable", sys.__unraisablehook__)(args)
    if args.exc_value is not None:
        explain_to(args.exc_value)


def explain_to(error: BaseException, stream: TextIO | None = None) -> bool:
    """Write the explanation of a device error, once; says whether there was one to give.

    Never raises: a fault of ours is one line.
    """
    target = stream if stream is not None else sys.stderr
    try:
        if getattr(error, EXPLAINED, False) or target is None or not _may_be(error):
            return False
        text = explanation(error, color=_wants_color(target), width=_width(target))
        if text is None:
            return False
        _mark(error)
        target.write(text)
        target.flush()
    except (KeyboardInterrupt, SystemExit):
        return False
    except BaseException as fault:
        _say_fault(fault, target)
        return False
    return True


def _say_fault(fault: BaseException, target: TextIO | None) -> None:
    try:
        if target is not None:
            words = " ".join(str(fault).split())[:120]
            target.write(f"samedevice: this error could not be explained ({type(fault).__name__}: {words})\n")
    except BaseException:
        # The stream is gone; the program's own error has been shown, and that is what counts.
        return


def _may_be(error: BaseException) -> bool:
    """A cheap test: nothing that torch had a part in is left out."""
    return isinstance(error, (Exception, BaseExceptionGroup)) and "torch" in sys.modules


def _mark(error: BaseException) -> None:
    try:
        setattr(error, EXPLAINED, True)
    except Exception:
        return


def explanation(
    error: BaseException, *, color: bool = False, width: int = 80, language: str | None = None
) -> str | None:
    """The explanation of an exception as text, None when it is no device error."""
    from samedevice.live.postmortem import explain_exception
    from samedevice.report.crash import crash_text

    found = explain_exception(error)
    if found is None:
        return None
    for listener in listeners:
        listener(found)
    return crash_text(
        found,
        color=color,
        width=width,
        language=_language(language),
        rank=_rank(),
        root=_start(),
        traced=_options["traced"],
    )


def add_note(error: BaseException) -> None:
    """Attach the cause to the exception as a note, for those who print exceptions themselves."""
    try:
        if not _may_be(error) or any("samedevice:" in note for note in getattr(error, "__notes__", ())):
            return
        from samedevice.live.postmortem import explain_exception
        from samedevice.report.crash import crash_note

        found = explain_exception(error)
        if found is not None:
            error.add_note(crash_note(found, _language(None)))
    except (KeyboardInterrupt, SystemExit):
        return
    except BaseException:
        return  # the program's own error goes on its way unchanged


@contextmanager
def explained() -> Iterator[None]:
    """Attach the cause of a device error that passes through to the exception, as a note.

    For programs that catch and log exceptions themselves (a trainer, a test, a server):

        with samedevice.explained():
            trainer.fit(model)
    """
    try:
        yield
    except Exception as error:
        add_note(error)
        raise


def _language(chosen: str | None) -> str:
    from samedevice.live.sentences import language_from

    return language_from(chosen or _options["language"], dict(os.environ))


def _rank() -> int | None:
    """The rank of this process among several, as launchers tell it."""
    if os.environ.get("WORLD_SIZE", "1") in ("", "1"):
        return None
    text = os.environ.get("RANK", "")
    return int(text) if text.isdigit() else None


def _start() -> str | None:
    """Where relative paths of the report begin."""
    from samedevice.program.files import START

    return START


def _wants_color(stream: TextIO) -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return bool(getattr(stream, "isatty", lambda: False)()) and os.environ.get("TERM") != "dumb"


def _width(stream: TextIO) -> int:
    import shutil

    if not getattr(stream, "isatty", lambda: False)():
        return 80
    return max(40, min(shutil.get_terminal_size().columns, 120))
