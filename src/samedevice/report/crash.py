"""The text below a traceback: why it happened, or what the message means."""

from samedevice.live.postmortem import Autopsy
from samedevice.live.sentences import say
from samedevice.live.translation import translated
from samedevice.model.diagnostic import Confidence, Diagnostic
from samedevice.report.excerpt import Files, ReadLines
from samedevice.report.explanation import explanation_lines, in_language
from samedevice.report.layout import Line, Span, plain, prose, wrap
from samedevice.report.text import diagnostic_lines


def crash_lines(
    found: Autopsy,
    *,
    width: int = 80,
    language: str = "en",
    rank: int | None = None,
    root: str | None = None,
    traced: bool = False,
    read: ReadLines | None = None,
) -> list[Line]:
    """The explanation as styled lines; `traced`: births were recorded, so a longer run would not tell more."""
    reader = read if read is not None else Files(root)
    who = say("why-rank").filled(rank=str(rank)) if rank is not None else say("why")
    lines: list[Line] = [(), (Span(who.of(language), "title"),), ()]
    diagnostic = found.diagnostic
    if diagnostic is not None:
        # The traceback above has said what was raised and where.
        told = diagnostic_lines(
            _without_raised(translated(diagnostic, language)), "run", width=width, read=reader
        )
        lines += in_language(told, language)
    else:
        page = explanation_lines(found.error, language, width=width, read=reader, below_traceback=True)
        lines += page[1:] if page and not page[0] else page
    if (
        not traced
        and found.error.match.family.placement
        and (diagnostic is None or diagnostic.confidence is Confidence.POSSIBLE)
    ):
        lines += [(), *wrap(prose(say("trace").of(language), "dim"), width)]
    return lines


def crash_text(
    found: Autopsy,
    *,
    color: bool = False,
    width: int = 80,
    language: str = "en",
    rank: int | None = None,
    root: str | None = None,
    traced: bool = False,
) -> str:
    """The explanation as text, ending in a newline."""
    lines = crash_lines(found, width=width, language=language, rank=rank, root=root, traced=traced)
    if color:
        from samedevice.report.terminal import colored

        return colored(lines)
    return plain(lines)


def crash_note(found: Autopsy, language: str = "en") -> str:
    """The explanation in a line or two, to be attached to an exception."""
    diagnostic = found.diagnostic
    if diagnostic is None:
        family = found.error.match.family
        cause = found.error.match.causes[0]
        return (
            f"samedevice: {family.title.of(language)}; {say('often').of(language)}: {cause.what.of(language)}"
        )
    told = translated(diagnostic, language)
    where = str(told.location).rpartition(":")[0]
    lines = [f"samedevice: {where}: {told.message} [{told.rule}]"]
    if told.help:
        lines.append(f"samedevice: {told.help}")
    return "\n".join(lines)


def _without_raised(diagnostic: Diagnostic) -> Diagnostic:
    from dataclasses import replace

    return replace(diagnostic, raised=None)
