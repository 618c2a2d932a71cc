"""Runs the situations of situations/*.txt, and says what came of them.

    python tests/virtual/conformance/situations.py

writes the outcomes (`=> …`) with the CUDA build of torch at hand, which needs two devices. Those in the files are
of torch 2.14.1's own CUDA build, its kernels launched into nothing: every check on the host is PyTorch's. Values
are garbage there, so a situation shows where tensors are and in which words a call is refused. A situation that
crashes or that a missing library stops has no outcome and is left out.

A file begins with a comment; then each paragraph is a title, a few lines of Python, and the outcome of the last.
"""

import ast
import copy
import io
import json
import math
import pickle
import re
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch import nn

FOLDER = Path(__file__).parent / "situations"
NAMESPACE = {
    "torch": torch, "nn": nn, "F": F, "np": np, "io": io, "copy": copy, "math": math, "pickle": pickle,
    "__name__": "situation",
}  # fmt: skip
#: the libraries behind CUDA's kernels, when they cannot be opened, and values that no kernel wrote
BEYOND_THE_CHECKS = re.compile(
    "CUDNN|cuDNN|CUSOLVER|NCCL|initialization error|_M_default_append|heuristic|nb_dims|out of memory|multiplication"
)
ACCIDENTAL = re.compile(r"0x[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class Situation:
    """One paragraph; `expected` is empty where no outcome is known."""

    title: str
    code: str
    expected: str

    def run(self) -> str:
        """What comes of it: devices and values, or the class and first sentence of the exception."""
        torch.manual_seed(0)
        # transformers loads models with another `torch.linspace`, and torch remembers it as it is then.
        torch.utils._device._device_constructors.cache_clear()
        names: dict[str, Any] = dict(NAMESPACE)
        body = ast.parse(self.code)
        last = body.body.pop()
        try:
            exec(compile(body, f"<{self.title}>", "exec"), names)
            if not isinstance(last, ast.Expr):
                exec(compile(ast.Module([last], []), f"<{self.title}>", "exec"), names)
                return "accepted"
            return told(eval(compile(ast.Expression(last.value), f"<{self.title}>", "eval"), names))
        except Exception as error:
            sentence = (str(error).strip() or " ").splitlines()[0].partition(" This could be because")[0]
            return ACCIDENTAL.sub(
                "0x…", f"{type(error).__name__}: {sentence}".encode("unicode_escape").decode()
            )
        finally:
            torch.set_default_device(None)
            torch.cuda.set_device(0)
            names.clear()


def told(value: Any) -> str:
    """A value in words: of a tensor its device."""
    if isinstance(value, torch.Tensor):
        return str(value.device)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(told, value))}]"
    if isinstance(value, (bool, int, str)) or value is None:
        return str(value)
    return str(value) if isinstance(value, torch.device) else type(value).__name__


def read(path: Path) -> tuple[str, list[Situation]]:
    """The head of a file and its situations."""
    head, *paragraphs = path.read_text().strip().split("\n\n")
    found = []
    for paragraph in paragraphs:
        lines = paragraph.splitlines()
        expected = lines.pop().removeprefix("=> ") if lines[-1].startswith("=> ") else ""
        found.append(Situation(lines[0].removeprefix("# "), "\n".join(lines[1:]), expected))
    return head, found


def all_situations() -> list[Situation]:
    """Every situation of every file."""
    return [situation for path in sorted(FOLDER.glob("*.txt")) for situation in read(path)[1]]


def main() -> None:
    """Write the outcomes; one that kills the process is left out on the next start."""
    warnings.simplefilter("ignore")
    journal = Path(sys.argv[1])
    done: dict[str, str] = {}
    if journal.exists():
        done = dict(json.loads(line) for line in journal.read_text().splitlines())
    with journal.open("a") as out:
        for situation in all_situations():
            if situation.code not in done:
                for outcome in ("", situation.run):
                    done[situation.code] = outcome if isinstance(outcome, str) else outcome()
                    out.write(json.dumps([situation.code, done[situation.code]]) + "\n")
                    out.flush()
    for path in sorted(FOLDER.glob("*.txt")):
        head, situations = read(path)
        paragraphs = [head]
        for situation in situations:
            outcome = done[situation.code]
            if BEYOND_THE_CHECKS.search(outcome):
                outcome = situation.expected
            paragraphs.append(
                f"# {situation.title}\n{situation.code}" + (f"\n=> {outcome}" if outcome else "")
            )
        path.write_text("\n\n".join(paragraphs) + "\n")


if __name__ == "__main__":
    main()
