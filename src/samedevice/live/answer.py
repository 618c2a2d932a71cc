"""The catalogue's answer to a found error, as a `Diagnostic`: what is known without the sources."""

from samedevice.live.found import FoundError
from samedevice.live.sentences import say
from samedevice.live.tracebacks import TextFrame
from samedevice.model.diagnostic import Confidence, Diagnostic, Evidence, Location, Raised, Severity

MOST_CAUSES = 5
MOST_FRAMES = 6


def catalogue_diagnostic(error: FoundError, log: str, language: str) -> Diagnostic:
    """What the catalogue says of the error.

    Its `location` is the message in the log: where the mistake is made is not known without the
    sources, and no guess is dressed as a fact.
    """
    family = error.match.family
    reading = error.match.reading
    causes = error.match.causes
    notes = [text.of(language) for text in (family.names, reading.text if reading else None) if text]
    if not family.placement:
        notes.append(say("no-placement").of(language))
    for number, cause in enumerate(causes[:MOST_CAUSES], 1):
        notes.append(
            f"{number}. `{cause.rule}`: {cause.what.of(language)} ({say('tell').of(language)}: {cause.sign.of(language)})"
        )
    return Diagnostic(
        rule=family.name,
        severity=Severity.ERROR,
        confidence=Confidence.POSSIBLE,
        message=family.title.of(language),
        location=Location(log, error.number),
        raised=raised_of(error),
        evidence=tuple(
            Evidence(location_of(frame), say("frame").filled(function=frame.function or "?").of(language))
            for frame in frames_to_look_at(error)
        ),
        help=causes[0].write.of(language) if causes else None,
        lesson=family.means.of(language),
        suggestion=family.code or (causes[0].code if causes else None) or None,
        notes=tuple(notes),
        count=error.count,
        ranks=error.ranks,
    )


def raised_of(error: FoundError) -> Raised | None:
    """Where it was raised, None when the text shows no frame."""
    place = error.place
    if place is None:
        return None
    return Raised(location_of(place), error.exception or "RuntimeError", error.match.text, error.count)


def frames_to_look_at(error: FoundError) -> list[TextFrame]:
    """The deepest frames of user code, outermost first; those of packages when there is no other."""
    own = [frame for frame in error.frames if frame.is_user]
    return (own or list(error.frames))[-MOST_FRAMES:]


def location_of(frame: TextFrame) -> Location:
    """The frame's place."""
    return Location(frame.path, frame.line, cell=frame.cell)
