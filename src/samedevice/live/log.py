"""Reading logs: decoding, stripping what terminals and launchers add, finding the suspicious lines."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from samedevice.torch_facts.messages.catalogue import leads

_ANSI = re.compile(
    r"\x1b(?:\[[0-9;:?<=>]*[ -/]*[@-~]|\][^\x07\x1b]{0,4000}(?:\x07|\x1b\\)|[()][A-Za-z0-9]|[=>78cDEHMNOZ])"
)
#: colour codes whose escape character was lost when the text was copied
_BARE_ANSI = re.compile(r"\[\d{1,3}(?:;\d{1,3}){0,4}m")

_RANK = (
    re.compile(r"\[(?:rank|default|Rank|RANK|gpu|GPU|worker|local_rank|proc)[ :_#-]{0,2}(\d{1,5})\]:? ?"),
    re.compile(r"\[(?:\d{1,5}),(\d{1,5})\]<std(?:err|out)>: ?"),
    re.compile(r"\[(\d{1,5})\]<std(?:err|out)>: ?"),
    re.compile(r"(?:rank|Rank|RANK)[ =:#_-]?(\d{1,5})[\]:|,)]{1,2} ?"),
    re.compile(r"\((?:[\w.-]{1,60} )?pid=(\d{1,9})(?:, ip=[\w.:]{1,60})?\) ?"),
    re.compile(
        r" {0,4}(\d{1,4}): (?=\s|Trace|File|Run|Type|Val|Not|Ass|[a-z.]{1,40}Err|The|During|\[|\d{4}-)"
    ),
)
_NOISE = (
    re.compile(
        r"\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]? ?[,|:-]{0,2} ?"
    ),
    re.compile(r"\[?\d\d[/.]\d\d[/.]\d{2,4}[ ,]{1,2}\d\d:\d\d:\d\d\]? ?[|:-]{0,2} ?"),
    re.compile(r"\[?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\]? ?[|-]? ?(?=\S)"),
    re.compile(r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]{1,60} [\w./-]{1,60}(?:\[\d{1,9}\])?: ?"),
    re.compile(r"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{1,9} +\d{1,9} [\w./-]{1,80}:\d{1,6}\] ?"),
    re.compile(r"\[?(?:ERROR|WARNING|WARN|INFO|DEBUG|CRITICAL|FATAL|stderr|stdout)\]?[ :|-]{1,3}"),
    re.compile(r"##\[error\]"),
    re.compile(r"\[pod/[\w./-]{1,100}\] ?"),
    re.compile(r"[a-zA-Z][\w.-]{0,60} {0,20}\| (?=\s|Trace|File|Run|Type|Val|Not|Ass|\[|\d{4}-)"),
    re.compile(r"[a-zA-Z][\w.-]{0,60}: (?=\[(?:rank|default))"),
    re.compile(r"[a-zA-Z][\w.]{0,60}(?:\[\d{1,9}\])? - "),
)
_MOST_PREFIXES = 7
_LONGEST_LINE = 20_000
_ESCAPED_FRAME = re.compile(r"\\n\s{0,8}File ")
_ESCAPE = re.compile(r"\\([\\ntr\"'/])")
_UNESCAPED = {"n": "\r", "t": " ", "r": "", "\\": "\\", '"': '"', "'": "'", "/": "/"}


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a log without what launchers and terminals put around it.

    Attributes:
        number: counted from 1 in the file.
        rank: of the process that wrote it, as its prefix says.
    """

    number: int
    text: str
    rank: int | None = None


def decode(data: bytes) -> str:
    """Text of a log in whatever encoding it comes; never fails."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    # Windows PowerShell's `>` and `tee` write UTF-16 without a mark, too.
    if data[:200].count(b"\0") > len(data[:200]) // 3:
        return data.decode("utf-16-le", "replace").replace("\0", "")
    return data.decode("utf-8-sig", "replace").replace("\0", "")


def strip_colours(text: str) -> str:
    """Without terminal control sequences."""
    if "\x1b" in text:
        text = _ANSI.sub("", text).replace("\x1b", "")
    if "[0m" in text or "[39m" in text or "[0;3" in text:
        text = _BARE_ANSI.sub("", text)
    return text


def strip_prefix(text: str) -> tuple[int | None, str]:
    """(rank, rest) without timestamps, levels, ranks and names of containers."""
    rank: int | None = None
    for _ in range(_MOST_PREFIXES):
        for pattern in _RANK:
            if found := pattern.match(text):
                rank = int(found[1]) if rank is None else rank
                text = text[found.end() :]
                break
        else:
            for pattern in _NOISE:
                if found := pattern.match(text):
                    text = text[found.end() :]
                    break
            else:
                return rank, text
    return rank, text


class Log:
    """The text of a log with access to its lines by number."""

    def __init__(self, text: str) -> None:
        self.text = strip_colours(text).replace("\r\n", "\n")
        self._raw = self.text.split("\n")
        self._cleaned: dict[int, list[Line]] = {}
        self._starts = [0, *accumulate(len(line) + 1 for line in self._raw)]

    def __len__(self) -> int:
        return len(self._raw)

    def suspicious(self) -> Iterator[int]:
        """Numbers (from 1) of lines that may hold a device error, in order."""
        text, numbers = self.text, set()
        for lead in leads():
            at = text.find(lead)
            while at >= 0:
                number = bisect_right(self._starts, at)
                numbers.add(number)
                if number >= len(self._starts):
                    break
                at = text.find(lead, self._starts[number])
        return iter(sorted(numbers))

    def lines(self, first: int, last: int) -> list[Line]:
        """The cleaned lines from `first` to `last`; a progress bar's returns begin a new one."""
        return [
            line
            for number in range(max(1, first), min(last, len(self._raw)) + 1)
            for line in self.pieces(number)
        ]

    def pieces(self, number: int) -> list[Line]:
        """What one line of the file consists of, cleaned."""
        if (known := self._cleaned.get(number)) is not None:
            return known
        raw = self._raw[number - 1]
        if len(raw) > _LONGEST_LINE:
            # Something without line ends (JSON, a progress bar): what is around the message is enough.
            at = min((a for lead in leads() if (a := raw.find(lead)) >= 0), default=0)
            raw = raw[max(0, at - _LONGEST_LINE // 2) : at + _LONGEST_LINE // 2]
        if "\\n" in raw and _ESCAPED_FRAME.search(raw):
            # Structured logs keep a traceback as one escaped string.
            raw = _ESCAPE.sub(lambda found: _UNESCAPED[found[1]], raw)
        found = []
        for piece in raw.split("\r") if "\r" in raw else (raw,):
            rank, text = strip_prefix(piece)
            found.append(Line(number, text, rank))
        self._cleaned[number] = found
        return found

    def raw(self, number: int) -> str:
        """The line as it stands, colours stripped."""
        return self._raw[number - 1]
