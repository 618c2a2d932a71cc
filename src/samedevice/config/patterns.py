"""Patterns of paths: `*` within a name, `**` across folders; one without a slash fits a name anywhere."""

import os
import re
from collections.abc import Sequence
from functools import lru_cache


class Patterns:
    """Several patterns, relative to one folder; what fits a folder fits all that is in it."""

    __slots__ = ("regex", "root")

    def __init__(self, patterns: Sequence[str], root: str) -> None:
        self.root = root
        self.regex = compiled(tuple(patterns))

    def __bool__(self) -> bool:
        return self.regex is not None

    def match(self, absolute: str) -> bool:
        """Whether the absolute path, or a folder that it is in, fits one of the patterns."""
        if self.regex is None:
            return False
        try:
            relative = os.path.relpath(absolute, self.root)
        except ValueError:  # another drive
            relative = absolute
        return self.regex.match(relative.replace(os.sep, "/")) is not None


@lru_cache(maxsize=256)
def compiled(patterns: tuple[str, ...]) -> re.Pattern[str] | None:
    """One regular expression for all of `patterns`, None when there are none."""
    parts = [translate(pattern) for pattern in patterns if pattern.strip("/ ")]
    return re.compile("|".join(parts), re.DOTALL) if parts else None


def translate(pattern: str) -> str:
    """The regular expression of one pattern, for a relative path with `/` between its parts."""
    pattern = pattern.strip().replace("\\", "/")
    pattern = pattern.removeprefix("./").rstrip("/")
    anchored = "/" in pattern
    pattern = pattern.lstrip("/")
    out = "" if anchored else "(?:.*/)?"
    at = 0
    while at < len(pattern):
        if pattern.startswith("**/", at):
            out, at = out + "(?:.*/)?", at + 3
        elif pattern.startswith("**", at):
            out, at = out + ".*", at + 2
        elif pattern[at] == "*":
            out, at = out + "[^/]*", at + 1
        elif pattern[at] == "?":
            out, at = out + "[^/]", at + 1
        elif pattern[at] == "[" and "]" in pattern[at + 2 :]:
            end = pattern.index("]", at + 2)
            inside = pattern[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            inside = "^" + inside[1:] if inside[0] in "!^" else inside
            out, at = out + _set(inside), end + 1
        else:
            out, at = out + re.escape(pattern[at]), at + 1
    return f"{out}(?:/.*)?\\Z"


def _set(inside: str) -> str:
    """A set of characters; one that is none (a range that runs backwards) fits nothing, as in a shell."""
    try:
        re.compile(f"[{inside}]")
    except re.error:
        return "(?!)"
    return f"[{inside}]"
