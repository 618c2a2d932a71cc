"""The text of an explained message: what it means, whom it names, the usual causes, how to write it right."""

from collections.abc import Sequence

from samedevice.live.answer import MOST_CAUSES, frames_to_look_at, location_of
from samedevice.live.found import FoundError
from samedevice.live.german import LABELS
from samedevice.live.sentences import say
from samedevice.live.translation import translated
from samedevice.model.diagnostic import Diagnostic
from samedevice.report.excerpt import Files, ReadLines, source_line
from samedevice.report.layout import Line, Span, prose, wrap
from samedevice.report.text import diagnostic_lines
from samedevice.torch_facts.messages import Cause

INDENT = "  "


def in_language(lines: list[Line], language: str) -> list[Line]:
    """Lines of the text report with its labels in `language`."""
    if language != "de":
        return lines
    return [_german_line(line) for line in lines]


def _german_line(line: Line) -> Line:
    """The line in German; what stands in columns keeps its place as far as there is room."""
    shown: list[Span] = []
    debt = 0
    for span in line:
        german = _german(span)
        if debt and not german.text.strip():
            kept = max(len(german.text) - debt, 1)
            debt -= len(german.text) - kept
            german = Span(" " * kept, german.style)
        debt += len(german.text) - len(span.text)
        shown.append(german)
    return tuple(shown)


def _german(span: Span) -> Span:
    text = span.text
    if span.style == "error" and text.startswith("error["):
        return Span("Fehler[" + text[len("error[") :], span.style)
    if text.startswith(" raised"):
        return Span(
            text.replace(" raised", " warf", 1).replace("times in this run", "mal in diesem Lauf"), span.style
        )
    bare = text.strip(" ")
    for english, german in LABELS.items():
        word = english.strip(" ")
        if bare == word:
            return Span(text.replace(word, german.strip(" "), 1), span.style)
    if text.lstrip(" ").startswith("on c"):
        return Span(text.replace("on c", "auf c", 1), span.style)
    return span


def explanation_lines(
    error: FoundError,
    language: str,
    *,
    width: int,
    read: ReadLines | None = None,
    all_causes: bool = False,
    diagnostic: Diagnostic | None = None,
    sources: bool | None = None,
    below_traceback: bool = False,
) -> list[Line]:
    """One found error, explained.

    Args:
        read: gives source lines where the traceback itself shows none.
        diagnostic: the cause, when the sources or the live program show it; the usual causes are left out.
        sources: whether the program's sources were at hand, None when it does not matter.
        below_traceback: the traceback stands above: what it says is not repeated, and less is said.
    """
    lines = [] if below_traceback else [*_headline(error, language, width)]
    family = error.match.family
    if diagnostic is not None:
        reader = read if read is not None else Files()
        told = diagnostic_lines(translated(diagnostic, language), "explain", width=width, read=reader)
        lines += [(), *in_language(told, language)]
    sections: list[tuple[str, str]] = [("means", f"{family.title.of(language)}. {family.means.of(language)}")]
    if family.names:
        sections.append(("names", family.names.of(language)))
    if reading := error.match.reading:
        sections.append(("here", reading.text.of(language)))
    for key, text in sections:
        lines += [
            (),
            (Span(say(key).of(language), "title"),),
            *wrap(prose(text), width, [Span(INDENT)], [Span(INDENT)]),
        ]
    if not family.placement:
        lines += [(), *wrap(prose(say("no-placement").of(language)), width, [Span(INDENT)], [Span(INDENT)])]
    if diagnostic is None:
        if not below_traceback:
            lines += _frames(error, language, width, read)
        lines += _causes(
            error,
            language,
            width,
            len(error.match.causes) if all_causes else 3 if below_traceback else MOST_CAUSES,
        )
        if error.frames and sources is not None and family.placement:
            key = "not-found" if sources else "no-sources"
            lines += [(), *wrap(prose(say(key).of(language), "dim"), width)]
    return lines


def _headline(error: FoundError, language: str, width: int) -> list[Line]:
    words = f"{error.exception}: {error.match.text}" if error.exception else error.match.text
    lines = wrap([Span(words, "raised")], width, (), [Span(INDENT)])
    facts = [say("line").filled(number=str(error.number)).of(language)]
    if error.count > 1:
        facts.append(say("count").filled(count=str(error.count)).of(language))
    if error.ranks:
        key = "rank" if len(error.ranks) == 1 else "ranks"
        facts.append(say(key).filled(ranks=", ".join(map(str, error.ranks))).of(language))
    if error.wrapper:
        facts.append(say("wrapper").filled(wrapper=error.wrapper).of(language))
    if releases := error.match.wording.releases:
        facts.append(say("wording").filled(releases=releases).of(language))
    return [*lines, *wrap([Span("; ".join(facts), "dim")], width, [Span(INDENT)], [Span(INDENT)])]


def _frames(error: FoundError, language: str, width: int, read: ReadLines | None) -> list[Line]:
    frames = frames_to_look_at(error)
    if not frames:
        return []
    lines: list[Line] = [(), (Span(say("look").of(language), "title"),)]
    for frame in frames:
        where = say("frame").filled(function=frame.function).of(language) if frame.function else ""
        spans = [Span(f"{frame.path}:{frame.line}", "path"), *prose(f"  {where}" if where else "")]
        lines += wrap(spans, width, [Span(INDENT)], [Span(INDENT * 2)])
        source = frame.source or (source_line(location_of(frame), read) if read else None)
        if source:
            room = width - 8
            lines.append(
                (
                    Span("    "),
                    Span("| ", "gutter"),
                    Span(source if len(source) <= room else source[: room - 4] + " ...", "source"),
                )
            )
    return lines


def _causes(error: FoundError, language: str, width: int, most: int) -> list[Line]:
    causes: Sequence[Cause] = error.match.causes
    shown = causes[:most]
    lines: list[Line] = [(), (Span(say("causes").of(language), "title"),)]
    hang = INDENT + "   "
    for number, cause in enumerate(shown, 1):
        lines += wrap(
            [*prose(cause.what.of(language), "headline", "headline"), Span(f"  [{cause.rule}]", "dim")],
            width,
            [Span(f"{INDENT}{number}. ", "number")],
            [Span(hang)],
        )
        for key, text, style in (("tell", cause.sign, "note"), ("write", cause.write, "help")):
            label = [Span(f"{hang}{say(key).of(language)}: ", style)]
            lines += wrap(prose(text.of(language)), width, label, [Span(hang + INDENT)])
        lines += _block(cause.code, width, hang)
    if error.match.family.code:
        lines += _block(error.match.family.code, width, INDENT)
    hidden = len(causes) - len(shown)
    if hidden > 0 and most >= MOST_CAUSES:
        lines += wrap(
            prose(say("more").filled(count=str(hidden)).of(language), "dim"),
            width,
            [Span(INDENT)],
            [Span(INDENT)],
        )
    return lines


def _block(code: str, width: int, indent: str) -> list[Line]:
    lines: list[Line] = []
    for text in code.splitlines():
        bare = text.lstrip(" ")
        first = [Span(f"{indent}  | ", "gutter"), Span(" " * (len(text) - len(bare)))]
        lines += (
            wrap([Span(bare, "suggestion")], width, first, [*first, Span("    ")]) if bare else [tuple(first)]
        )
    return lines
