"""From the exception of a failed test to the device mistake behind it, as plain data.

The data travels with pytest's report, also from a worker process of pytest-xdist: numbers, texts,
lists and dicts only.
"""

import os
from dataclasses import replace
from typing import Any, Final

from samedevice.model.diagnostic import Diagnostic
from samedevice.model.fix import Applicability, Fix
from samedevice.program.exceptions import chain
from samedevice.program.files import START
from samedevice.report.excerpt import Files
from samedevice.report.layout import Line, Span, wrap
from samedevice.report.text import diagnostic_lines
from samedevice.source.lines import lines_of
from samedevice.source.rewriting import rewrite, unified_diff

#: files whose functions raise because another exception was not the expected one
_EXPECTING: Final = (("_pytest", "raises.py"), ("unittest", "case.py"))
_EXPECTING_FUNCTIONS: Final = ("__exit__", "_raiseFailure", "matches", "fail")

_DIFF_STYLES: Final = {"+": "suggestion", "-": "raised", "@": "gutter"}


def explanation_of(error: BaseException, gpus: int, width: int) -> dict[str, Any] | None:
    """What to add to a test's report; None when the exception is no device mistake.

    Returns:
        "lines": the explanation, each line as pairs of text and style;
        "cause": what tests that fail by the same mistake have in common (rule, severity, place, message).
    """
    # A test that is about exceptions itself is left alone.
    raised = list(chain(error, _inside, _tells_of_another))
    if not raised:
        return None
    for each in raised:
        mistake = getattr(each, "samedevice_mistake", None)
        if mistake is not None:
            return _told(mistake.diagnostic, width)
    for each in raised:
        hint = _missing_gpu(each, gpus, width)
        if hint is not None:
            return {"lines": _plain(hint)}
    return _post_mortem(error, width)


def _post_mortem(error: BaseException, width: int) -> dict[str, Any] | None:
    """The mistake in an exception that came without its cause: from a thread's text, from torch's Python."""
    from samedevice.live.postmortem import explain_exception
    from samedevice.report.crash import crash_lines

    found = explain_exception(error)
    if found is None or not found.error.match.family.placement:
        return None
    if found.diagnostic is not None:
        return _told(found.diagnostic, width)
    lines = crash_lines(found, width=width, root=START, traced=True)
    while lines and not lines[0]:
        lines = lines[1:]
    return {"lines": _plain(lines)}


def _inside(error: BaseException) -> list[BaseException]:
    """The exceptions that a group, or what doctest makes of an exception, holds."""
    if isinstance(error, BaseExceptionGroup):
        return list(error.exceptions)
    held = [*getattr(error, "failures", ()), *(getattr(error, "exc_info", None) or ())]
    return [each for each in held if isinstance(each, BaseException)]


def _tells_of_another(error: BaseException) -> bool:
    """Raised by `pytest.raises` or `assertRaises`, because the exception is not what the test wants."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
        code = traceback.tb_frame.f_code
        where = tuple(code.co_filename.replace(os.sep, "/").split("/")[-2:])
        if where in _EXPECTING and code.co_name in _EXPECTING_FUNCTIONS[:2]:
            return True
    return False


def _told(diagnostic: Diagnostic, width: int) -> dict[str, Any]:
    # pytest has shown what was raised and where.
    lines = diagnostic_lines(replace(diagnostic, raised=None), "pytest", width=width, read=Files(START))
    if diagnostic.fix is not None:
        lines += diff_lines(diagnostic.fix)
    where = diagnostic.location
    return {
        "lines": _plain(lines),
        "cause": {
            "rule": diagnostic.rule,
            "severity": str(diagnostic.severity),
            "path": where.path,
            "line": where.line,
            "message": diagnostic.message,
        },
    }


def diff_lines(fix: Fix) -> list[Line]:
    """The fix as a unified diff that `patch` takes; none when it cannot be made."""
    if fix.applicability is Applicability.DISPLAY:
        return []
    old: dict[str, bytes] = {}

    def read(path: str) -> bytes:
        with open(os.path.join(START, path), "rb") as stream:
            old[path] = stream.read()
        return old[path]

    done = rewrite([fix], read)
    lines: list[Line] = [()] if done.contents else []
    for path, new in done.contents.items():
        for text in lines_of(unified_diff(path, old[path], new)):
            lines.append((Span(text, _DIFF_STYLES.get(text[:1], "")),))
    return lines


def _missing_gpu(error: BaseException, gpus: int, width: int) -> list[Line] | None:
    """The test names a GPU that is not there."""
    asked = getattr(error, "samedevice_asked", None)
    if not isinstance(asked, int):
        return None
    had = f"{gpus} virtual GPU{'' if gpus == 1 else 's'}"
    text = (
        f"the test uses cuda:{asked} and ran with {had}: it needs `--virtual-gpus {asked + 1}`, "
        f"or `@pytest.mark.virtual_gpus({asked + 1})` of its own"
    )
    return wrap([Span(text)], width)


def _plain(lines: list[Line]) -> list[list[list[str]]]:
    return [[[span.text, span.style] for span in line] for line in lines]
