"""Edits applied to files: all edits of a fix or none, conflicts resolved by order, nothing else touched."""

import ast
import tokenize
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from io import StringIO
from itertools import pairwise

from samedevice.model.fix import Edit, Fix
from samedevice.source.decoding import DecodingError, SourceText, decode
from samedevice.source.lines import LineIndex, split_lines


class EditError(Exception):
    """These edits cannot be applied to this source."""


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """`text` with all `edits` made, each at its place in the text as it was.

    Raises:
        EditError: an edit's place does not exist, or two edits overlap.
    """
    return splice(text, locate(text, edits))


def locate(text: str, edits: Iterable[Edit]) -> list[tuple[int, int, str]]:
    """The edits as sorted (start offset, end offset, new text).

    Raises:
        EditError: an edit's place does not exist, or two edits overlap.
    """
    index = LineIndex(text)
    try:
        spans = sorted({(index.offset(e.start), index.offset(e.end), e.new_text) for e in edits})
    except ValueError as error:
        raise EditError(str(error)) from None
    for start, end, _ in spans:
        if start > end:
            raise EditError("an edit ends before it starts")
    for (_, end, _), (start, _, _) in pairwise(spans):
        if start < end:
            raise EditError("edits overlap")
    return spans


def splice(text: str, spans: Sequence[tuple[int, int, str]]) -> str:
    """`text` with each span, sorted and apart from one another, replaced by its new text."""
    parts, at = [], 0
    for start, end, new in spans:
        parts += [text[at:start], new]
        at = end
    return "".join([*parts, text[at:]])


def touches(edit: Edit, others: Iterable[Edit]) -> bool:
    """Whether `edit` overlaps or meets one of `others`, so that only one of them can be made at a time.

    The same edit asked for twice is one edit (two fixes that both need the same import).
    """
    for other in others:
        if (edit.path, edit.cell) != (other.path, other.cell) or edit == other:
            continue
        if edit.start < other.end and other.start < edit.end:
            return True
        # Two insertions at one place, or one at the border of a replacement: their order is unclear.
        insertion = edit.start == edit.end or other.start == other.end
        if insertion and edit.start <= other.end and other.start <= edit.end:
            return True
    return False


def choose(fixes: Iterable[Fix]) -> tuple[list[Fix], list[Fix]]:
    """(fixes that can be made together, fixes that must wait for another round), in the order given."""
    chosen: list[Fix] = []
    waiting: list[Fix] = []
    taken: dict[tuple[str, int | None], list[Edit]] = {}
    for fix in fixes:
        if not fix.edits:
            continue
        if any(touches(edit, taken.get((edit.path, edit.cell), ())) for edit in fix.edits):
            waiting.append(fix)
            continue
        chosen.append(fix)
        for edit in fix.edits:
            taken.setdefault((edit.path, edit.cell), []).append(edit)
    return chosen, waiting


@dataclass(slots=True)
class Rewriting:
    """What a round of fixes makes of the files.

    Attributes:
        contents: the new bytes of each file that changes.
        made: the fixes that are in them.
        waiting: fixes that conflict with one of `made`; another round may make them.
        refused: fixes that cannot be made, with the reason.
    """

    contents: dict[str, bytes] = field(default_factory=dict)
    made: list[Fix] = field(default_factory=list)
    waiting: list[Fix] = field(default_factory=list)
    refused: list[tuple[Fix, str]] = field(default_factory=list)


def rewrite(fixes: Iterable[Fix], read: Callable[[str], bytes]) -> Rewriting:
    """Make `fixes` in memory: every one whose edits fit, and whose result still parses.

    Args:
        fixes: in the order in which they are preferred where they conflict.
        read: the present bytes of a file (from disk, or of an earlier round).
    """
    chosen, waiting = choose(fixes)
    done = Rewriting(waiting=waiting)
    documents: dict[str, bytes] = {}

    def original(path: str) -> bytes:
        if path not in documents:
            documents[path] = read(path)
        return documents[path]

    candidates = chosen
    try:
        done.contents = attempt(candidates, original)
    except (EditError, OSError):
        # One fix that does not fit must not take the others with it: each alone first.
        candidates = []
        for fix in chosen:
            try:
                attempt([fix], original)
            except (EditError, OSError) as error:
                done.refused.append((fix, str(error)))
            else:
                candidates.append(fix)
        while candidates:
            try:
                done.contents = attempt(candidates, original)
                break
            except EditError:
                # Each is right alone and together they are not: the last one waits.
                done.waiting.insert(0, candidates.pop())
    done.made = candidates
    done.contents = {path: new for path, new in done.contents.items() if new != documents[path]}
    return done


def attempt(fixes: Iterable[Fix], original: Callable[[str], bytes]) -> dict[str, bytes]:
    """The new bytes of every file that `fixes` edit.

    Raises:
        EditError: some edit does not fit, or a result does not parse.
    """
    by_path: dict[str, list[Edit]] = {}
    for fix in fixes:
        for edit in fix.edits:
            by_path.setdefault(edit.path, []).append(edit)
    return {path: edit_bytes(path, original(path), edits) for path, edits in by_path.items()}


def edit_bytes(path: str, data: bytes, edits: Sequence[Edit]) -> bytes:
    """The bytes of one file with `edits` made; every byte outside of them stays as it is.

    Raises:
        EditError: an edit does not fit, the result does not parse, or the file cannot be written back.
    """
    if path.endswith(".ipynb"):
        from samedevice.source.notebook_edits import edit_notebook

        return edit_notebook(data, edits)
    try:
        source = decode(data)
    except DecodingError as error:
        raise EditError(error.message) from None
    check_keeps_comments(source.text, edits)
    new_text = apply_edits(source.text, with_line_ends(source.text, edits))
    check_compiles(new_text, source.text)
    return encode_back(source, data, new_text)


def encode_back(source: SourceText, data: bytes, new_text: str) -> bytes:
    """`new_text` in the encoding of `source`, whose bytes are `data`.

    Raises:
        EditError: the encoding cannot give the old bytes back, or lacks a new character.
    """
    try:
        if source.encode(source.text) != data:
            raise EditError(f"the file cannot be written back in {source.encoding} without other changes")
        return source.encode(new_text)
    except UnicodeError:
        raise EditError(f"{source.encoding} lacks a character of the new text") from None


def with_line_ends(text: str, edits: Iterable[Edit]) -> list[Edit]:
    """The edits with the line ends that `text` itself has."""
    end = line_end(text)
    if end == "\n":
        return list(edits)
    return [
        Edit(e.path, e.start, e.end, e.new_text.replace("\r\n", "\n").replace("\n", end), e.cell)
        for e in edits
    ]


def line_end(text: str) -> str:
    """The line end of the first line."""
    newline, carriage = text.find("\n"), text.find("\r")
    if carriage < 0 or 0 <= newline < carriage:
        return "\n"
    return "\r\n" if newline == carriage + 1 else "\r"


def check_keeps_comments(text: str, edits: Sequence[Edit]) -> None:
    """Raises EditError when a comment would go with the code around it; an edit may take out a comment alone."""
    spans = [(start, end) for start, end, _ in locate(text, edits) if "#" in text[start:end]]
    if not spans:
        return
    index = LineIndex(text)
    new = "\n".join(edit.new_text for edit in edits)
    found: dict[tuple[int, int], list[tuple[int, int]]] = {}
    try:
        for token in tokenize.generate_tokens(StringIO(text, newline="").readline):
            if token.type == tokenize.COMMENT:
                begin = index.starts[token.start[0] - 1] + token.start[1]
                for span in spans:
                    if span[0] <= begin < span[1]:
                        found.setdefault(span, []).append((begin, begin + len(token.string)))
    except (tokenize.TokenError, SyntaxError):
        return  # whether it is Python at all is asked elsewhere
    for (start, end), comments in found.items():
        rest, at = "", start
        for begin, stop in comments:
            rest, at = rest + text[at:begin], stop
        alone = not (rest + text[at:end]).strip()
        if not alone and any(text[begin:stop] not in new for begin, stop in comments):
            raise EditError("a comment would be lost")


def check_compiles(new_text: str, old_text: str) -> None:
    """Raises EditError when `new_text` is no Python, or does not compile although `old_text` does."""
    problem = compile_problem(new_text, ast.PyCF_ONLY_AST)
    if problem is None:
        # What the parser takes may still be wrong: a keyword argument given twice.
        problem = compile_problem(new_text, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if problem is not None and compile_problem(old_text, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT) is not None:
            problem = None
    if problem is not None:
        raise EditError(f"the result would not parse: {problem}")


def compile_problem(text: str, flags: int) -> str | None:
    """What `compile` says against `text`, None when it is content."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "<fixed>", "exec", flags=flags, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return str(error) or type(error).__name__
    return None


def unified_diff(path: str, old: bytes, new: bytes) -> str:
    """The change as a unified diff; line ends other than the line feed are shown as they are."""
    import difflib

    before, after = split_lines(decode(old).text), split_lines(decode(new).text)
    out = []
    for line in difflib.unified_diff(before, after, path, path):
        out.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(out)
