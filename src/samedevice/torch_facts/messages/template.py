"""Message templates: literal text with named places, matched in linear time."""

import re
from dataclasses import dataclass
from functools import cache

#: what may stand in a place; each is one character class without nesting, so matching cannot explode
KINDS = {
    "device": r"(?:cuda|cpu|mps|xpu|meta|hip|xla|hpu|npu|mtia|privateuseone|ipu|vulkan|lazy|maia)(?::\d{1,3})?",
    "Device": r"(?:CUDA|CPU|MPS|XPU|META|Cuda|Cpu|Meta|cuda|cpu|mps|xpu|meta|GPU)(?::\d{1,3})?",
    "word": r"[^\s'\"{}]{1,120}",
    "name": r"[A-Za-z_][\w.\[\]\-:]{0,119}",
    "type": r"[A-Za-z_][\w.]{0,79}",
    "int": r"-?\d{1,6}",
    "text": r"(?:[^\x00]){1,400}",
}

_PLACE = re.compile(r"\{(\w+)(?::(\w+))?\}")
_SPACES = re.compile(r"\s+")
_LONGEST = 405
_SHORTEST_LEAD, _LONGEST_LEAD = 14, 34


@cache
def _kind(name: str) -> re.Pattern[str]:
    return re.compile(KINDS[name])


def flatten(text: str) -> str:
    """Runs of white space become one space; typographic quotes become plain ones."""
    for fancy, plain in (("“", '"'), ("”", '"'), ("‘", "'"), ("’", "'"), ("\u00a0", " ")):
        if fancy in text:
            text = text.replace(fancy, plain)
    return _SPACES.sub(" ", text)


@dataclass(frozen=True, slots=True)
class Template:
    """A message text with places.

    Attributes:
        source: the text as written.
        literals: the pieces between the places; one more than places.
        places: (name, kind) of each place.
    """

    source: str
    literals: tuple[str, ...]
    places: tuple[tuple[str, str], ...]

    @classmethod
    def parse(cls, source: str) -> "Template":
        """Read `{name}` and `{name:kind}` places; the kind is `word` when not given."""
        flat = flatten(source)
        literals, places, end = [], [], 0
        for place in _PLACE.finditer(flat):
            literals.append(flat[end : place.start()])
            places.append((place[1], place[2] or "word"))
            end = place.end()
        literals.append(flat[end:])
        return cls(source, tuple(literals), tuple(places))

    @property
    def exact(self) -> bool:
        """It has places, or is long enough to be nobody else's words."""
        return bool(self.places) or len(self.source) > 40

    @property
    def marker(self) -> str:
        """The longest literal piece: what a message of this template always contains."""
        return max(self.literals, key=len).strip()

    @property
    def lead(self) -> str:
        """A short piece from the beginning: it stands on one line even where a log wraps messages."""
        piece = self.literals[0].strip()
        if len(piece) < _SHORTEST_LEAD:
            piece = self.marker
        return piece if len(piece) <= _LONGEST_LEAD else piece[:_LONGEST_LEAD].rpartition(" ")[0]

    def find(self, flat: str, start: int = 0) -> tuple[int, int, dict[str, str]] | None:
        """(begin, end, pieces) of the first match in a flattened text."""
        first = 0 if self.literals[0] else 1
        lead = self.literals[first]
        while True:
            at = flat.find(lead, start)
            if at < 0:
                return None
            found = self._match_at(flat, at, first)
            if found is not None:
                return found
            start = at + 1

    def _match_at(self, flat: str, at: int, first: int) -> tuple[int, int, dict[str, str]] | None:
        pieces: dict[str, str] = {}
        begin = at
        if first:
            name, kind = self.places[0]
            head = flat[max(0, at - _LONGEST) : at]
            word = head if kind == "text" else head[head.rfind(" ") + 1 :].lstrip("`'\"")
            if not _kind(kind).fullmatch(word):
                return None
            pieces[name] = word
            begin = at - len(word)
        position = at + len(self.literals[first])
        for number in range(first, len(self.places)):
            name, kind = self.places[number]
            literal = self.literals[number + 1]
            if literal:
                end = flat.find(literal, position, position + _LONGEST + len(literal))
                if end < 0:
                    return None
                piece = flat[position:end]
                if not _kind(kind).fullmatch(piece):
                    return None
                position = end + len(literal)
            else:
                held = _kind(kind).match(flat, position)
                if held is None:
                    return None
                piece = held[0].rstrip(".,;") if kind != "text" else held[0]
                position += len(piece)
            if pieces.setdefault(name, piece) != piece:
                return None
        return begin, position, pieces
