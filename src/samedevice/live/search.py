"""The search for device errors in a text, from one pasted message to a log of many megabytes."""

import re
from collections.abc import Sequence

from samedevice.live.found import FoundError, merged
from samedevice.live.log import Line, Log, decode
from samedevice.live.tracebacks import TextFrame, ends_traceback, exception_class, is_header, parse_frames
from samedevice.torch_facts.messages import Match, match_message

_LINES_BELOW = 14
_LINES_ABOVE = 700
#: a text up to this long is somebody's question, not a log: a message may stand anywhere in it
_QUESTION = 4_000
_MOST_ERRORS = 2_000
#: so many lines that belong to no traceback end the search for its beginning
_QUIET_LINES = 40

_DIGITS = str.maketrans("0123456789", "0" * 10)
_WRAPPER = re.compile(r"Caught \w{1,60} in (DataLoader worker process \d{1,6}|pin memory thread for device \S{1,12}|replica \d{1,4} on device \S{1,12})")  # fmt: skip
_TORCHSCRIPT = "The following operation failed in the TorchScript interpreter"
_SOURCE_HEAD = re.compile(
    r"(?:\braise\b|\bassert|\bmatch=|TORCH_CHECK|^\s*#|\s#\s|^\s*\*|\breturn\b|pytest\.|\blambda\b)"
)
_QUOTED = re.compile(r"(?:^|[\s(\[{=:,])[fFrRbBuU]{0,2}[\"']{1,3}\s?$")


def find_errors(data: bytes | str) -> list[FoundError]:
    """The device errors of a log, a traceback or a message, in order, ranks merged."""
    text = decode(data) if isinstance(data, bytes) else data
    log = Log(text)
    lenient = len(log.text) <= _QUESTION
    errors: list[FoundError] = []
    seen: dict[str, bool] = {}
    for number in log.suspicious():
        shape = log.raw(number)[:400].translate(_DIGITS)
        if seen.get(shape) is False:
            continue
        found = _error_at(log, number, lenient)
        seen[shape] = found is not None
        if found is not None:
            errors.append(found)
            if len(errors) >= _MOST_ERRORS:
                break
    return merged(_without_echoes(errors))


def _without_echoes(errors: list[FoundError]) -> list[FoundError]:
    """A shortened repetition (pytest's summary), or a mention beside a real error, does not count."""
    whole = [error for error in errors if error.match.fields]
    real = {error.match.family.name for error in errors if error.exception}
    kept = []
    for error in errors:
        if not error.match.fields and any(error.match.text in other.match.text for other in whole):
            continue
        if error.exception or error.frames or error.match.family.name not in real:
            kept.append(error)
    return kept


def _error_at(log: Log, number: int, lenient: bool) -> FoundError | None:
    below = log.lines(number, number + _LINES_BELOW)
    for index, line in enumerate(below):
        if line.number != number:
            break
        match, head = _match_from(below, index, lenient)
        if match is not None:
            return _with_traceback(log, line, match, head)
    return None


def _match_from(lines: Sequence[Line], index: int, lenient: bool) -> tuple[Match | None, str]:
    """(match, what stands before it on its line)."""
    first = lines[index]
    parts = [first.text]
    for line in lines[index + 1 :]:
        if line.rank != first.rank and first.rank is not None:
            continue
        text = line.text.strip()
        if (
            is_header(text)
            or text.startswith(("File ", "╭", "╰", "┌", "+-"))
            or ends_traceback(text)
            or not text
        ):
            break
        parts.append(text.removeprefix("E ").strip(" │"))
        if sum(map(len, parts)) > 1_200:
            break
    flat = " ".join(" ".join(parts).split())
    match = match_message(flat)
    if match is None or match.begin >= len(" ".join(first.text.split())) + 1:
        return None, ""
    head = flat[: match.begin]
    if not lenient and not _is_raised(head, match):
        return None, ""
    return match, head


def _is_raised(head: str, match: Match) -> bool:
    """The message stands where a raised or logged error stands, not in source code or prose."""
    if _SOURCE_HEAD.search(head):
        return False
    if exception_class(head):
        return True
    exact = match.wording.template.exact
    if not head.strip(" │E>"):
        return exact
    if _QUOTED.search(head):
        return bool(match.fields) and (":" in head or "(" in head)
    tail = head.rstrip()
    if tail.endswith((":", "-", "|", "]", ">", ")")):
        return exact
    # "Function X returned an invalid gradient" and the like: other words of the same message.
    return exact and bool(match.fields) and exception_class(tail[: tail.find(": ") + 2]) is not None


def _with_traceback(log: Log, line: Line, match: Match, head: str) -> FoundError:
    above = _traceback_above(log, line)
    frames = parse_frames(above)
    below = _frames_below(log, line) if not frames or head.strip().startswith("E") else []
    wrapper = next((found[1] for other in reversed(above) if (found := _WRAPPER.search(other.text))), None)
    return FoundError(
        match=match,
        exception=_class_in(head),
        frames=tuple(_deduplicated([*frames, *below])),
        number=line.number,
        wrapper=wrapper,
        ranks=() if line.rank is None else (line.rank,),
    )


def _class_in(head: str) -> str | None:
    name = exception_class(head)
    if name is None:
        found = re.search(
            r"((?:[a-z_]\w{0,40}\.){0,5}[A-Z]\w{0,80}(?:Error|Exception|Warning|Unsupported)): ", head
        )
        name = found[1] if found else None
    return name


def _traceback_above(log: Log, last: Line) -> list[Line]:
    """The lines of the traceback that ends with the line `last`, as the same rank wrote them."""
    kept: list[Line] = []
    quiet = 0
    for number in range(last.number, max(0, last.number - _LINES_ABOVE), -1):
        for line in reversed(log.pieces(number)):
            if line == last and not kept:
                kept.append(line)
                continue
            if not kept or (last.rank is not None and line.rank not in (last.rank, None)):
                continue
            text = line.text
            if text.startswith("Traceback of TorchScript") or _TORCHSCRIPT in text:
                # The graph's own stack; Python's is above it.
                continue
            if ends_traceback(text) and not _WRAPPER.search(text):
                return kept[::-1]
            kept.append(line)
            if is_header(text) or text.startswith("-" * 30):
                if "Original Traceback" in text:
                    # The line above says which process or thread it was.
                    kept += (
                        [one for one in log.pieces(number - 1) if _WRAPPER.search(one.text)]
                        if number > 1
                        else []
                    )
                return kept[::-1]
            shaped = not text or text[0] in " │E>~\t_" or parse_frames([line])
            quiet = 0 if shaped else quiet + 1
            if quiet > _QUIET_LINES:
                return kept[::-1]
    return kept[::-1]


def _frames_below(log: Log, line: Line) -> list[TextFrame]:
    """pytest shows the place of an error under its message."""
    below = log.lines(line.number + 1, line.number + 8)
    for index, other in enumerate(below):
        if is_header(other.text):
            return []
        found = parse_frames([other])
        if found and other.text.rstrip().endswith(("Error", "Exception")):
            source = next(
                (
                    o.text[1:].strip()
                    for o in reversed(log.lines(line.number - 30, line.number))
                    if o.text.startswith(">")
                ),
                "",
            )
            frame = found[0]
            return [TextFrame(frame.path, frame.line, frame.function, source, frame.number)]
        if index > 6:
            break
    return []


def _deduplicated(frames: list[TextFrame]) -> list[TextFrame]:
    """Several ranks that write at once without a prefix give each line twice."""
    kept: list[TextFrame] = []
    for frame in frames:
        if kept and (kept[-1].path, kept[-1].line, kept[-1].function) == (
            frame.path,
            frame.line,
            frame.function,
        ):
            continue
        kept.append(frame)
    return kept
