"""Mutates real sources at random and lints them: no traceback of ours, no hang, no fix that breaks a file.

    python scripts/fuzz_lint.py [--count 2000] [--seed 0] [--limit 20] [FOLDER ...]

Sources are drawn from the folders (the standard library and the installed packages when none is
given), half of them from files that mention torch. A failing input is kept in the folder that is
printed. Exit status 1 when anything failed.
"""

import argparse
import ast
import json
import os
import random
import re
import signal
import sys
import sysconfig
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from samedevice.lint.workspace import Workspace
from samedevice.source.decoding import DecodingError, decode
from samedevice.source.rewriting import rewrite

#: a source longer than this makes the run slow without making it better
LONGEST = 60_000

TOKENS = [
    "(", ")", "[", "]", "{", "}", ":", ",", ".", "=", "*", "**", "@", "->", ":=", "...", "\\", "\n", "\t", "    ",
    "'", '"', '"""', "'''", "#", "# samedevice: ignore", "# samedevice: ignore[", "# samedevice: ignore-file[a, b]",
    "None", "self", "super()", "lambda: 0", "yield ", "await ", "async ", "return ", "if 1: ", "else: ", "for x in y: ",
    "with x as y: ", "try: ", "except: ", "class A(A): ", "def f(*, a, **k): ", "import torch\n", "from . import *\n",
    "global x\n", "nonlocal x\n", "del x\n", "x = x.to(x)\n", ".cuda()", ".to('cuda:0')", ".cpu()", ".numpy()",
    "torch.zeros(3)", "torch.device(", "self.register_buffer('a', ", "nn.ModuleList([", "match x:\n  case [*_]: ",
    "f'{x!r:>{y}}'", "0x", "1e999", "0" * 50, "é", "🎉", "\u2028", "\x00", "\x0c", "\ufeff", "\ud800", "\u202e",
]  # fmt: skip


class Hang(Exception):
    """A file took longer than the limit."""


def sources(folders: list[Path], chance: random.Random, count: int) -> list[bytes]:
    """Contents of files drawn from the folders, half of them with torch in them."""
    paths = sorted(
        path for folder in folders for path in folder.rglob("*.py") if path.stat().st_size <= LONGEST
    )
    chance.shuffle(paths)
    wanted = min(count, 600)
    with_torch: list[bytes] = []
    without: list[bytes] = []
    for path in paths:
        try:
            data = path.read_bytes()
        except OSError:
            continue
        (with_torch if b"torch" in data else without).append(data)
        if len(with_torch) >= wanted and len(without) >= wanted:
            break
    return with_torch[:wanted] + without[:wanted]


def place(data: bytes, chance: random.Random) -> int:
    return chance.randrange(len(data) + 1)


def insert_token(data: bytes, chance: random.Random, pool: list[bytes]) -> bytes:
    at = place(data, chance)
    return data[:at] + chance.choice(TOKENS).encode("utf-8", "surrogatepass") + data[at:]


def delete_span(data: bytes, chance: random.Random, pool: list[bytes]) -> bytes:
    at = place(data, chance)
    return data[:at] + data[at + chance.choice([1, 2, 8, 50, 500]) :]


def flip_byte(data: bytes, chance: random.Random, pool: list[bytes]) -> bytes:
    at = place(data, chance)
    return data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]


def repeat_span(data: bytes, chance: random.Random, pool: list[bytes]) -> bytes:
    at = place(data, chance)
    span = data[at : at + chance.choice([1, 5, 40, 200])]
    return data[:at] + span * chance.choice([2, 3, 30]) + data[at:]


def swap_lines(data: bytes, chance: random.Random, pool: list[bytes]) -> bytes:
    lines = data.splitlines(keepends=True)
    for _ in range(chance.choice([1, 3, 10])):
        if len(lines) > 1:
            i, j = chance.randrange(len(lines)), chance.randrange(len(lines))
            lines[i], lines[j] = lines[j], lines[i]
    return b"".join(lines)


def splice(data: bytes, chance: random.Random, pool: list[bytes]) -> bytes:
    """Whole lines of another file in between: what the parser takes most often."""
    lines, others = data.splitlines(keepends=True), chance.choice(pool).splitlines(keepends=True)
    at, begin = chance.randrange(len(lines) + 1), chance.randrange(len(others) + 1)
    lines[at:at] = others[begin : begin + chance.choice([1, 5, 40])]
    return b"".join(lines)


def rename(data: bytes, chance: random.Random, pool: list[bytes]) -> bytes:
    """One word for another everywhere: still Python, and means something else."""
    words = set(re.findall(rb"[A-Za-z_]\w+", data))
    if len(words) < 2:
        return data
    old, new = chance.sample(sorted(words), 2)
    return data.replace(old, new)


def indent(data: bytes, chance: random.Random, pool: list[bytes]) -> bytes:
    lines = data.splitlines(keepends=True)
    begin = chance.randrange(len(lines) + 1)
    step = chance.choice([b" ", b"    ", b"\t"])
    changed = [step + line for line in lines[begin : begin + 20]]
    return b"".join(lines[:begin] + [b"if x:\n"] * chance.randrange(2) + changed + lines[begin + 20 :])


def recode(data: bytes, chance: random.Random, pool: list[bytes]) -> bytes:
    """Another encoding, told or not, or other line ends."""
    name = chance.choice(
        ["latin-1", "utf-16", "utf-8-sig", "cp1252", "shift_jis", "utf-7", "idna", "rot13", "no"]
    )
    if chance.random() < 0.5:
        data = f"# coding: {name}\n".encode() + data
    try:
        data = data.decode().encode(name, "replace") if chance.random() < 0.5 else data
    except (UnicodeError, LookupError):
        pass
    return data.replace(b"\n", chance.choice([b"\r\n", b"\r", b"\n"]))


def nest(data: bytes, chance: random.Random, pool: list[bytes]) -> bytes:
    """Deep nesting of one kind in the middle."""
    depth = chance.choice([30, 90, 150, 1000, 5000])
    opening, closing = chance.choice(
        [(b"(", b")"), (b"[", b"]"), (b"f(", b")"), (b"-", b""), (b"not ", b""), (b"a.b", b"")]
    )
    lines = data.splitlines(keepends=True)
    lines.insert(chance.randrange(len(lines) + 1), opening * depth + b"x" + closing * depth + b"\n")
    return b"".join(lines)


def graft(data: bytes, chance: random.Random, pool: list[bytes]) -> bytes:
    """Expressions and statements exchanged within a file and with another: always Python, rarely sense."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree, other = ast.parse(data), ast.parse(chance.choice(pool))
    except (SyntaxError, ValueError, RecursionError):
        return data
    donors = [node for node in (*ast.walk(tree), *ast.walk(other)) if isinstance(node, ast.expr)]
    values = [node for node in donors if isinstance(getattr(node, "ctx", ast.Load()), ast.Load)]
    known = set(values)
    statements = [node for node in ast.walk(other) if isinstance(node, ast.stmt)]
    nodes = list(ast.walk(tree))
    for node in chance.sample(nodes, k=min(40, len(nodes))):
        for name, field in ast.iter_fields(node):
            if isinstance(field, ast.expr) and field in known and chance.random() < 0.5:
                setattr(node, name, chance.choice(values))
            elif name == "body" and isinstance(field, list) and statements:
                field.insert(chance.randrange(len(field) + 1), chance.choice(statements))
    try:
        return ast.unparse(tree).encode("utf-8", "surrogatepass")
    except (RecursionError, ValueError, AttributeError, TypeError):
        return data  # a graft that has no text


MUTATORS: list[Callable[[bytes, random.Random, list[bytes]], bytes]] = [
    insert_token, insert_token, delete_span, flip_byte, repeat_span, swap_lines, splice, splice, rename, rename,
    indent, recode, nest,
]  # fmt: skip


def mutants(pool: list[bytes], chance: random.Random, count: int) -> Iterator[tuple[str, bytes]]:
    """(name, contents) of mutated files, one in eight a notebook."""
    for number in range(count):
        data = chance.choice(pool)
        if number % 2:
            data = graft(data, chance, pool)
        else:
            for _ in range(chance.choice([1, 1, 2, 3, 6])):
                data = chance.choice(MUTATORS)(data, chance, pool)
        if number % 8:
            yield f"m{number}.py", data
        else:
            yield f"m{number}.ipynb", as_notebook(data, chance, pool)


def as_notebook(data: bytes, chance: random.Random, pool: list[bytes]) -> bytes:
    """The lines of a file as the cells of a notebook, the JSON sometimes mutated as well."""
    lines = data.decode("utf-8", "replace").splitlines(keepends=True)
    cells = []
    while lines:
        size = chance.choice([1, 5, 40, 400])
        lines, part = lines[size:], lines[:size]
        if chance.random() < 0.1:
            part.insert(
                0,
                chance.choice(["%matplotlib inline\n", "!ls\n", "%%time\n", "%%bash\n", "x?\n", "x = !ls\n"]),
            )
        cells.append({"cell_type": "code", "source": part if chance.random() < 0.7 else "".join(part)})
    text = json.dumps({"cells": cells}, indent=chance.choice([None, 1, 2])).encode("utf-8", "surrogatepass")
    return flip_byte(text, chance, pool) if chance.random() < 0.2 else text


def examine(name: str, data: bytes) -> tuple[int, bool]:
    """Lint one file, then make all of its fixes: the number of diagnostics, and whether it was Python."""
    workspace = Workspace(lambda rule: True, overlay={name: data})
    found = workspace.examine(name)
    fixes = [one.fix for one in found.diagnostics if one.fix is not None]
    if fixes:
        done = rewrite(fixes, lambda path: data)
        for path, new in done.contents.items():
            if not path.endswith(".ipynb") and not found.broken:
                compile(decode(new).text, path, "exec", 0x400)
    return len(found.diagnostics), not found.broken


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=20, help="seconds that one file may take")
    options = parser.parse_args()
    os.environ["SAMEDEVICE_TRACEBACK"] = "1"  # our own failures are what is looked for
    chance = random.Random(options.seed)
    paths = sysconfig.get_paths()
    pool = sources(options.folders or [Path(paths["stdlib"]), Path(paths["purelib"])], chance, options.count)

    def too_long(number: int, frame: FrameType | None) -> None:
        raise Hang(f"longer than {options.limit:g} s")

    signal.signal(signal.SIGALRM, too_long)
    kept = Path(tempfile.mkdtemp(prefix="fuzz-lint-"))
    failures = diagnostics = python = 0
    slowest = (0.0, "")
    began = time.perf_counter()
    for name, data in mutants(pool, chance, options.count):
        start = time.perf_counter()
        signal.setitimer(signal.ITIMER_REAL, options.limit)
        try:
            count, valid = examine(name, data)
            diagnostics, python = diagnostics + count, python + valid
        except DecodingError:
            raise
        except Exception as error:  # whatever it is, it is the finding
            failures += 1
            (kept / name).write_bytes(data)
            last = traceback.extract_tb(error.__traceback__)[-1]
            print(
                f"{kept / name}: {type(error).__name__}: {error} ({last.filename}:{last.lineno})", flush=True
            )
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        slowest = max(slowest, (time.perf_counter() - start, name))
    seconds = time.perf_counter() - began
    print(
        f"{options.count} files, {failures} failures, {python} were Python, {diagnostics} diagnostics, "
        f"{seconds:.1f} s, slowest {slowest[0]:.2f} s ({slowest[1]})"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
