"""Tracebacks in text: CPython's, IPython's, rich's, pytest's; frames out of any of them."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from samedevice.live.log import Line

HEADERS = (
    "Traceback (most recent call last)",
    "Traceback of TorchScript",
    "Original Traceback",
    "Traceback (innermost last)",
)

_CPYTHON = re.compile(r'\s{0,40}>?\s{0,8}File "([^"\n]{1,500})", line (\d{1,7})(?:, in (.{1,200}))?')
_IPYTHON = re.compile(r'\s{0,8}File ([^\s"][^"\n]{0,400}?):(\d{1,7})(?:, in (.{1,300}))?$')
_CELL = re.compile(r"(?:Cell In|Input In) ?\[(\d{1,6})\](?:, line (\d{1,7}))?(?:, in (.{1,200}))?")
_OLD_IPYTHON = re.compile(r"((?:[~/<.]|[A-Za-z]:[\\/])\S{0,400}) in ([\w<>.]{1,200})(?:\(.*)?$")
_ARROW = re.compile(r"-{2,6}> ?(\d{1,7}) ?(.*)$")
_RICH = re.compile(r"((?:[~/<.]|[A-Za-z]:[\\/]|[\w-]+[/.])[^│\n]{0,400}?):(\d{1,7}) in ([\w<>.]{1,200})$")
_RICH_SOURCE = re.compile(r"[❱>] {0,6}(\d{1,7}) ?│? ?(.*)$")
_PYTEST = re.compile(
    r"([\w./\\~-][\w./\\ ~-]{0,400}\.py):(\d{1,7}):(?: (?:in ([\w<>.]{1,200})|([A-Z]\w{0,80})\b.*)|\s{0,3})$"
)
_CLASS = re.compile(r"((?:[A-Za-z_]\w{0,80}\.){0,6}[A-Za-z_]\w{0,80}) ?: ?$")
_CLASS_LINE = re.compile(
    r"(?:E {1,12})?((?:[A-Za-z_]\w{0,80}\.){0,6}[A-Z]\w{0,80}(?:Error|Exception|Warning|Interrupt|Exit|Unsupported|Mismatch)): ?"
)
_OURS = ("/samedevice/virtual/", "/samedevice/program/", "/samedevice/cli/", "/samedevice/live/")
_NOT_USER = (
    *_OURS,"site-packages", "dist-packages", "/lib/python3", "\\lib\\python3", "<frozen ", "<string>", "<__array_function__", "importlib/_bootstrap")  # fmt: skip
_HOME_LIB = re.compile(
    r"[/\\](?:Lib|lib)[/\\](?:threading|runpy|multiprocessing|concurrent|contextlib|unittest|asyncio)\b"
)


@dataclass(frozen=True, slots=True)
class TextFrame:
    """One frame as a traceback shows it.

    Attributes:
        number: line of the log that shows it.
        source: the source line shown with it, "" when none is.
        cell: number of the notebook's cell.
        marked: columns of `source` (from 0) that the traceback underlines.
    """

    path: str
    line: int
    function: str = ""
    source: str = ""
    number: int = 0
    cell: int | None = None
    marked: tuple[int, int] | None = None

    @property
    def is_ours(self) -> bool:
        """A frame of samedevice's own, which no other program has."""
        return any(part in self.path for part in _OURS)

    @property
    def is_user(self) -> bool:
        """The user's own code, as far as the path tells."""
        return not any(part in self.path for part in _NOT_USER) and not _HOME_LIB.search(self.path)


def exception_class(head: str) -> str | None:
    """The exception's class before a message: "torch.cuda.OutOfMemoryError: " → that name."""
    found = _CLASS.search(head)
    if found is None:
        return None
    name = found[1]
    last = name.rpartition(".")[2]
    return (
        name if last[:1].isupper() and last.lower() not in ("error", "warning", "info", "critical") else None
    )


def is_header(text: str) -> bool:
    """A line that begins a traceback."""
    return any(header in text for header in HEADERS)


def ends_traceback(text: str) -> bool:
    """A line "SomeError: …" at the left margin."""
    return _CLASS_LINE.match(text) is not None


def _unbox(text: str) -> str:
    """The content of a line in a rich panel."""
    stripped = text.strip()
    if stripped.startswith("│"):
        stripped = stripped[1:]
        return stripped[:-1].strip() if stripped.endswith("│") else stripped.strip()
    return stripped if stripped.startswith("❱") else ""


def parse_frames(lines: Sequence[Line]) -> list[TextFrame]:
    """The frames that the lines show, outermost first (pytest shows a frame's place after it)."""
    frames: list[TextFrame] = []
    pending: tuple[str, int | None, str, int, int | None] | None = None
    carried = ""
    for index, line in enumerate(lines):
        text = line.text
        if found := _CPYTHON.match(text):
            source = _source_after(lines, index)
            marked = _marked(lines, index) if source else None
            frames.append(
                TextFrame(
                    found[1], int(found[2]), (found[3] or "").strip(), source, line.number, None, marked
                )
            )
            pending = None
            continue
        if text.lstrip().startswith(("│", "❱")):
            box = _unbox(text)
            if found := _RICH_SOURCE.match(box):
                if frames and frames[-1].line == int(found[1]) and not frames[-1].source:
                    frames[-1] = _with_source(frames[-1], found[2].strip(" │"))
                carried = ""
            else:
                joined = carried + box
                if (found := _RICH.match(joined)) or (found := _RICH.match(carried + " " + box)):
                    frames.append(TextFrame(found[1], int(found[2]), found[3], "", line.number))
                    carried = ""
                else:
                    carried = box if box and ("/" in box or "\\" in box) and "│" not in box else ""
            continue
        if found := _ARROW.match(text):
            if pending is not None:
                path, _, function, number, cell = pending
                frames.append(TextFrame(path, int(found[1]), function, found[2].strip(), number, cell))
                pending = None
            elif frames and frames[-1].line == int(found[1]) and not frames[-1].source:
                frames[-1] = _with_source(frames[-1], found[2].strip())
            continue
        if found := _CELL.match(text):
            cell = int(found[1])
            function = (found[3] or "<module>").partition("(")[0]
            if found[2]:
                frames.append(TextFrame(f"cell {cell}", int(found[2]), function, "", line.number, cell))
                pending = None
            else:
                pending = (f"cell {cell}", None, "<module>", line.number, cell)
            continue
        if found := _IPYTHON.match(text):
            function = (found[3] or "").partition("(")[0]
            frames.append(TextFrame(found[1], int(found[2]), function, "", line.number))
            continue
        if found := _PYTEST.match(text):
            source = _source_after(lines, index) if found[3] else _pytest_source(lines, index)
            frames.append(TextFrame(found[1], int(found[2]), found[3] or "", source, line.number))
            continue
        if (found := _OLD_IPYTHON.match(text)) and "://" not in found[1]:
            pending = (found[1], None, found[2], line.number, None)
    return frames


def _with_source(frame: TextFrame, source: str) -> TextFrame:
    return replace(frame, source=source)


def _source_after(lines: Sequence[Line], index: int) -> str:
    if index + 1 >= len(lines):
        return ""
    text = lines[index + 1].text
    if not text[:1].isspace() or _CPYTHON.match(text):
        return ""
    return text.strip()


def _marked(lines: Sequence[Line], index: int) -> tuple[int, int] | None:
    """What the carets under a source line mark, as columns of the stripped line."""
    if index + 2 >= len(lines):
        return None
    source, carets = lines[index + 1].text, lines[index + 2].text.rstrip()
    bare = carets.lstrip()
    if not bare or set(bare) - set("^~"):
        return None
    start = len(carets) - len(bare) - (len(source) - len(source.lstrip()))
    return (start, start + len(bare)) if start >= 0 else None


def _pytest_source(lines: Sequence[Line], index: int) -> str:
    for line in reversed(lines[max(0, index - 25) : index]):
        if line.text.startswith(">"):
            return line.text[1:].strip()
    return ""


def innermost_user(frames: Iterable[TextFrame]) -> TextFrame | None:
    """The deepest frame in the user's own code, else the deepest of all."""
    last = own = None
    for frame in frames:
        last = frame
        if frame.is_user:
            own = frame
    return own or last
