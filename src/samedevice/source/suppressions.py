"""Suppression comments: `# samedevice: ignore[rule, rule] reason` and `# samedevice: ignore-file[rule]`.

A comment silences the diagnostics in whose span it stands; one on a line of its own also those
on the next line of code; one that names the rule also those whose story goes through its line.
A suppression that silences nothing is a problem itself.
"""

import io
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from samedevice.model.diagnostic import Confidence, Diagnostic, Location, Severity
from samedevice.model.fix import Applicability, Edit, Fix, Point
from samedevice.source.lines import LINE_END

#: the rule under which an unused suppression is reported
UNUSED = "unused-suppression"

MARKER = "samedevice:"
VERBS = ("ignore", "ignore-file")
#: what people write for `ignore` who know another tool
MISSPELT = re.compile(r"ignor[-\w]*|noqa|disable|skip|nolint|suppress|allow", re.IGNORECASE)
COMMENT = re.compile(
    r"#\s*samedevice:\s*(?P<verb>[\w-]+)\s*(?P<list>\[(?P<names>[^\]#]*)(?P<close>\])?)?(?P<reason>[^#]*)"
)


@dataclass(slots=True)
class Suppression:
    """One suppression comment.

    Attributes:
        names: the rules it names; None means every rule.
        covers: lines that a diagnostic's span must touch to be silenced; unused for a whole file.
        line, column, end_column: where it stands, from its `#` to its last character.
        removal: what to delete so that nothing of it is left.
        list_columns: where the names stand, between the brackets.
        problem: what is wrong with the way it is written; it then silences nothing.
        used: the names (or "*") that silenced something.
    """

    names: tuple[str, ...] | None
    whole_file: bool
    covers: set[int]
    line: int
    column: int
    end_column: int
    removal: tuple[Point, Point]
    list_columns: tuple[int, int]
    cell: int | None = None
    problem: str | None = None
    used: set[str] = field(default_factory=set)

    def silences(self, diagnostic: Diagnostic) -> bool:
        """Whether `diagnostic`, known to be in this file, is silenced; remembers that it was."""
        where = diagnostic.location
        if self.problem or (self.names is not None and diagnostic.rule not in self.names):
            return False
        if not self.whole_file:
            places = [where]
            if self.names is not None:
                places += [step.location for step in diagnostic.evidence if step.location.path == where.path]
            if not any(self.is_at(place) for place in places):
                return False
        self.used.add(diagnostic.rule if self.names is not None else "*")
        return True

    def is_at(self, place: Location) -> bool:
        """Whether the comment stands in the lines of `place`, which is in its file."""
        span = range(place.line, (place.end_line or place.line) + 1)
        return place.cell == self.cell and any(line in span for line in self.covers)


def find_suppressions(text: str, cell: int | None = None) -> list[Suppression]:
    """The suppression comments of Python source; reads tokens only when the word occurs at all."""
    if MARKER not in text:
        return []
    text = LINE_END.sub("\n", text)
    lines = text.split("\n")
    found: list[Suppression] = []
    waiting: list[Suppression] = []
    last_code = 0
    for is_comment, begin, end, string in tokens(text):
        line, column = begin
        if not is_comment:
            for suppression in waiting:
                suppression.covers.add(line)
            waiting = []
            last_code = end[0]
        elif MARKER in string:
            for suppression in parse_comment(lines[line - 1], line, column, cell):
                found.append(suppression)
                if line > last_code:
                    waiting.append(suppression)
    return found


def tokens(text: str) -> Iterator[tuple[bool, tuple[int, int], tuple[int, int], str]]:
    """(is a comment, start, end, string) of comments and code; ends where the code is broken."""
    import tokenize

    layout = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type not in layout:
                yield token.type == tokenize.COMMENT, token.start, token.end, token.string
    except (tokenize.TokenError, SyntaxError, ValueError):
        return  # a file that does not parse is reported as such, elsewhere


def parse_comment(text: str, line: int, begin: int, cell: int | None) -> Iterator[Suppression]:
    """The suppressions in the comment that begins at offset `begin` of the line `text`."""
    for match in COMMENT.finditer(text, begin):
        verb, names, problem = match["verb"], None, None
        if verb not in VERBS:
            if not means_ignore(verb):
                continue  # prose that happens to begin with our name
            near = "ignore-file" if "file" in verb else "ignore"
            problem = f"`{verb}` is written `{near}`"
        elif match["list"]:
            names = tuple(name.strip() for name in match["names"].split(",") if name.strip())
            if not match["close"]:
                problem = "the list of rules lacks its `]`"
            elif not names:
                problem = "the list of rules is empty"
        end = match.start() + len(match[0].rstrip())
        whole_file = verb == "ignore-file"
        yield Suppression(
            names=names,
            whole_file=whole_file,
            covers=set() if whole_file else {line},
            line=line,
            column=match.start() + 1,
            end_column=end + 1,
            removal=removal(text, line, match.start(), end),
            list_columns=(match.start("names") + 1, match.end("names") + 1),
            cell=cell,
            problem=problem,
        )


def means_ignore(verb: str) -> bool:
    """Whether the word after our name is another tool's, or a misspelt, `ignore`."""
    from difflib import get_close_matches

    return bool(MISSPELT.fullmatch(verb) or get_close_matches(verb.lower(), VERBS, n=1, cutoff=0.75))


def removal(text: str, line: int, start: int, end: int) -> tuple[Point, Point]:
    """What to delete of the line `text` so that the comment from `start` to `end` leaves no trace."""
    before, after = text[:start], text[end:]
    if after.strip():
        # Another comment follows; it takes this one's place.
        return Point(line, start + 1), Point(line, end + len(after) - len(after.lstrip()) + 1)
    if before.strip():
        return Point(line, len(before.rstrip()) + 1), Point(line, len(text) + 1)
    return Point(line, 1), Point(line + 1, 1)


def silence(
    diagnostics: Iterable[Diagnostic], comments: Iterable[Suppression]
) -> tuple[list[Diagnostic], int]:
    """(the diagnostics of one file that none of its comments silences, how many were silenced)."""
    comments = list(comments)
    kept: list[Diagnostic] = []
    silenced = 0
    for diagnostic in diagnostics:
        # Every comment that applies must learn that it is used, so the first does not end the search.
        applying = [comment for comment in comments if comment.silences(diagnostic)]
        if applying:
            silenced += 1
        else:
            kept.append(diagnostic)
    return kept, silenced


def unused_suppressions(
    path: str,
    comments: Iterable[Suppression],
    *,
    judged: Callable[[str], bool],
    stranger: Callable[[str], str | None],
    all_judged: bool,
    last_line: Callable[[int | None], int],
) -> list[Diagnostic]:
    """Diagnostics for the comments of the file `path` that silence nothing.

    Args:
        judged: whether the engine looked for a rule, so that its absence means something.
        stranger: None for the name of a rule, else what to say of the name.
        all_judged: whether a comment without a list can be judged.
        last_line: number of the last line (of a cell), beyond which no edit may reach.
    """
    out = []
    for comment in comments:
        reasons, idle = [], []
        if comment.problem:
            reasons = [comment.problem]
        elif comment.names is None:
            if all_judged and not comment.used:
                reasons = ["no problem is found here"]
                idle = ["*"]
        else:
            for name in comment.names:
                strange = stranger(name)
                if strange is not None:
                    reasons.append(strange)
                elif name not in comment.used and judged(name):
                    reasons.append(f"`{name}` is not found here")
                    idle.append(name)
        if reasons:
            out.append(report(path, comment, reasons, idle, last_line(comment.cell)))
    return out


def report(path: str, comment: Suppression, reasons: list[str], idle: list[str], last: int) -> Diagnostic:
    """The diagnostic for one comment; its fix removes the idle names, or all of the comment."""
    kept = [name for name in comment.names or () if name not in idle]
    if kept and idle:
        first, end = comment.list_columns
        edit = Edit(path, Point(comment.line, first), Point(comment.line, end), ", ".join(kept), comment.cell)
        title = f"Remove {' and '.join(f'`{name}`' for name in idle)} from the list"
    else:
        start, stop = comment.removal
        if stop.line > last:
            stop = Point(comment.line, comment.end_column)
        edit = Edit(path, start, stop, "", comment.cell)
        title = "Remove the comment"
    where = Location(path, comment.line, comment.column, comment.line, comment.end_column, comment.cell)
    # What is misspelt was meant to silence something: deleting it is not what its author wants.
    fix = Fix(title, Applicability.SAFE, (edit,)) if idle else None
    return Diagnostic(
        rule=UNUSED,
        severity=Severity.WARNING,
        confidence=Confidence.CERTAIN,
        message=f"the suppression silences nothing: {'; '.join(reasons)}",
        location=where,
        help=title[0].lower() + title[1:] if fix else "write it right, or remove the comment",
        fix=fix,
    )
