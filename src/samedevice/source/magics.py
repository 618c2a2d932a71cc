"""IPython's magics made harmless: a cell becomes Python without moving any of its characters."""

import ast
import re
import warnings

from samedevice.source.lines import LINE_END

#: cell magics whose body is Python of this notebook
PYTHON_CELL_MAGICS = frozenset(
    {"time", "timeit", "capture", "prun", "mprun", "memit", "python", "python3", "pyspy"}
)
CELL_MAGIC = re.compile(r"\s*%%(\w[\w.]*)")
#: `%time`, `%prun` and their like run the rest of the line here
LINE_MAGIC_WITH_CODE = re.compile(
    r"(?P<indent>[ \t]*)%(?P<name>time|timeit|prun|memit)(?P<gap>[ \t]+)(?=[\w(\[{])"
)
LINE_MAGIC = re.compile(r"[ \t]*(?:%|!|\?)")
HELP = re.compile(r"[ \t]*[\w.%*]+\?{1,2}[ \t]*;?[ \t]*$")
ASSIGNED = re.compile(r"(?P<target>[ \t]*[\w.,\[\]'\" \t]+?[ \t]*=[ \t]*)(?:!|%(?=[A-Za-z]))")
#: what IPython runs as a magic or in the shell without a mark, when it is no Python
AUTOMAGIC = re.compile(
    r"[ \t]*(?:pip|pip3|conda|mamba|uv|cd|ls|ll|cat|cp|mv|rm|mkdir|rmdir|pwd|man|more|less|env|load_ext|reload_ext|"
    r"matplotlib|config|autoreload|run|time|who|whos|git|wget|curl|unzip|nvidia-smi)\b"
)


def harmless(source: str) -> tuple[str, SyntaxError | None]:
    """A cell as Python of the same lines and columns, and the error when it cannot be made one."""
    magic = CELL_MAGIC.match(source)
    if magic:
        if magic[1] not in PYTHON_CELL_MAGICS:
            return blank(source), None
        at = source.find("%%")
        line = LINE_END.search(source, at)
        end = line.start() if line else len(source)
        source = source[:at] + "pass"[: max(end - at, 0)] + source[end:]
    if any(mark in source for mark in "%!?"):
        source = without_magics(source)
    for _ in range(len(LINE_END.findall(source)) + 1):
        error = syntax_error(source)
        if error is None:
            return source, None
        lines = LINE_END.split(source)
        number = error.lineno or 0
        if not 1 <= number <= len(lines) or not AUTOMAGIC.match(lines[number - 1]):
            return blank(source), error
        source = replace_line(source, number, indented_pass(lines[number - 1]))
    return blank(source), error


def blank(source: str) -> str:
    """As many empty lines as `source` has."""
    return "".join(LINE_END.findall(source))


def indented_pass(line: str) -> str:
    """`pass` where the line's code begins."""
    return line[: len(line) - len(line.lstrip())] + "pass"


def replace_line(source: str, number: int, new: str) -> str:
    """`source` with its line `number` replaced, its line end kept."""
    starts = [0, *(found.end() for found in LINE_END.finditer(source))]
    end = LINE_END.search(source, starts[number - 1])
    return source[: starts[number - 1]] + new + (source[end.start() :] if end else "")


def syntax_error(source: str) -> SyntaxError | None:
    """Why `source` does not parse."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(source)
    except SyntaxError as error:
        return error
    except (ValueError, RecursionError, MemoryError) as error:
        return SyntaxError(str(error) or "too deeply nested")
    return None


def without_magics(source: str) -> str:
    """`source` with line magics, shell commands and help requests replaced on their lines."""
    if syntax_error(source) is None:
        return source  # `%` and `!` are operators and text here
    inside = lines_inside_strings(source)
    out: list[str] = []
    lines, ends = LINE_END.split(source), [*LINE_END.findall(source), ""]
    continued = False
    for number, line in enumerate(lines, 1):
        new = line
        if continued:
            new = ""
            continued = line.rstrip().endswith("\\")
        elif number not in inside:
            new, magic = without_magic(line)
            continued = magic and line.rstrip().endswith("\\")
        out += [new, ends[number - 1]]
    return "".join(out)


def without_magic(line: str) -> tuple[str, bool]:
    """(a line with its magic replaced, whether there was one whose continuation lines go with it)."""
    timed = LINE_MAGIC_WITH_CODE.match(line)
    if timed:
        # `%time x = f()` becomes `0;    x = f()`: the statement keeps its columns.
        room = len(timed[0]) - len(timed["indent"])
        return timed["indent"] + "0;".ljust(room) + line[timed.end() :], False
    if LINE_MAGIC.match(line) or HELP.match(line):
        return indented_pass(line), True
    assigned = ASSIGNED.match(line)
    if assigned:
        return assigned["target"] + "get_ipython()", True
    return line, False


def lines_inside_strings(source: str) -> set[int]:
    """Lines that begin within a string of several lines: what looks like a magic there is text."""
    inside: set[int] = set()
    at = 0
    while found := STRING_OR_COMMENT.search(source, at):
        if found["string"]:
            first = len(LINE_END.findall(source[: found.start()])) + 1
            inside.update(range(first + 1, first + len(LINE_END.findall(found[0])) + 1))
        at = max(found.end(), at + 1)
    return inside


STRING_OR_COMMENT = re.compile(
    r"""(?P<string>\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?''')"""
    r"""|"(?:\\.|[^"\\\r\n])*"|'(?:\\.|[^'\\\r\n])*'|\#[^\r\n]*""",
    re.DOTALL,
)
