"""Bytes of a source file to text and back: PEP 263, byte order marks, errors in plain words."""

import re
from dataclasses import dataclass

#: a coding cookie may stand in the first two lines only (PEP 263)
COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)", re.ASCII)
BLANK = re.compile(rb"^[ \t\f]*(?:#.*)?$")
NEWLINE = re.compile(rb"\r\n|\r|\n")
FIRST_TWO_LINES = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)?[^\r\n]*")

#: byte order marks of encodings that Python does not read sources in, the longer ones first
FOREIGN_MARKS = (
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)

UTF8_MARK = b"\xef\xbb\xbf"


class DecodingError(Exception):
    """The bytes are no text in the encoding that Python reads them in; says why and in which line."""

    def __init__(self, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


@dataclass(frozen=True, slots=True)
class SourceText:
    """The text of a file and what is needed to write it back; line ends are kept as they are."""

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""

    def encode(self, text: str) -> bytes:
        """`text` as bytes of this file; raises UnicodeError when the encoding lacks a character."""
        return self.mark + text.encode(self.encoding)


def decode(data: bytes) -> SourceText:
    """The text of a Python source file.

    Raises:
        DecodingError: a wrong or unknown encoding.
    """
    mark = UTF8_MARK if data.startswith(UTF8_MARK) else b""
    body = data[len(mark) :]
    if not mark:
        for foreign, name in FOREIGN_MARKS:
            if data.startswith(foreign):
                raise DecodingError(f"the file is {name}, which Python does not read; save it as UTF-8")
    encoding, line = declared_encoding(body)
    if mark and encoding not in ("utf-8", None):
        raise DecodingError(f"the coding comment says {encoding}, the byte order mark says UTF-8", line)
    name = encoding or "utf-8"
    try:
        return SourceText(body.decode(name), name, mark)
    except UnicodeDecodeError as error:
        place = len(NEWLINE.findall(body[: error.start])) + 1
        shown = body[error.start : error.start + 1].hex()
        hint = "" if encoding else "; save it as UTF-8, or name its encoding in a coding comment (PEP 263)"
        raise DecodingError(f"byte 0x{shown} is not valid {name}{hint}", place) from None
    except (LookupError, UnicodeError, ValueError, TypeError, AssertionError):
        # Codecs that are no text encodings (rot13, hex), and those that fail in their own ways (idna).
        raise DecodingError(f"the file is not text in its declared encoding, {name}", line) from None


def declared_encoding(body: bytes) -> tuple[str | None, int]:
    """The encoding that the coding comment names, in Python's spelling, and the comment's line.

    Raises:
        DecodingError: Python knows no such encoding.
    """
    head = FIRST_TWO_LINES.match(body)
    if head is None or b"coding" not in head[0]:
        return None, 1
    for number, text in enumerate(NEWLINE.split(head[0]), 1):
        found = COOKIE.match(text)
        if found:
            return canonical(found[1].decode("ascii"), number), number
        if not BLANK.match(text):
            break
    return None, 1


def canonical(name: str, line: int) -> str:
    """The encoding's name as `codecs` has it, `utf-8` for all of UTF-8's spellings.

    Raises:
        DecodingError: Python knows no such encoding.
    """
    import codecs

    try:
        found = codecs.lookup(name)
    except (LookupError, ValueError):
        raise DecodingError(f"unknown encoding {name!r} in the coding comment", line) from None
    if not getattr(found, "_is_text_encoding", True):
        raise DecodingError(f"{name!r} in the coding comment is not a text encoding", line)
    return "utf-8" if found.name in ("utf-8", "utf-8-sig") else found.name
