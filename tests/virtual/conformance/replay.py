"""Makes the calls of calls.txt on every placement of their operands, and says what came of them.

    python tests/virtual/conformance/replay.py OUTCOMES.json.gz

records them with the CUDA build of torch at hand (two devices are needed). The outcomes here are those of
torch 2.14.1's own CUDA build, its kernels launched into nothing: every check on the host is PyTorch's. Where
a library behind it (cuDNN, cuSOLVER) stopped a call after the device checks, it counts as accepted.
"""

import gzip
import itertools
import json
import math
import operator
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

FOLDER = Path(__file__).parent
DEVICES = {"c": "cpu", "0": "cuda:0", "1": "cuda:1"}
DTYPES = {
    "f": torch.float32, "h": torch.float16, "bf": torch.bfloat16, "d": torch.float64, "b": torch.bool,
    "i": torch.int64, "s": torch.float32, "n": torch.int32, "l": torch.int64,
}  # fmt: skip
SPEC = re.compile(r"(bf|[a-z])([\dx]*)(?:<(\d+)|=(\d+))?$")

#: the libraries behind CUDA's kernels, when they cannot be opened or are given garbage
BEYOND_THE_CHECKS = re.compile(
    "CUDNN|cuDNN|CUSOLVER|cuFFT|initialization error|_M_default_append|heuristic|nb_dims"
)
GARBAGE = re.compile("out of memory|negative|out of range|out of bounds|invalid storage offset|`zero_point`")


@dataclass(frozen=True, slots=True)
class Example:
    """One line of calls.txt."""

    text: str
    names: tuple[str, ...]
    specs: tuple[str, ...]
    expression: str

    def placements(self) -> Iterator[str]:
        """A letter an operand. All of them up to three operands, else one or all out of place.

        The first GPU named is 0: which of two equal GPUs is which tells nothing.
        """
        count = len(self.specs)
        if count <= 3:
            found = {"".join(letters) for letters in itertools.product("c01", repeat=count)}
        else:
            found = {one * count for one in "c0"}
            for usual, odd in itertools.permutations("c01", 2):
                found |= {usual * k + odd + usual * (count - k - 1) for k in range(count)}
        for letters in sorted(found):
            if letters.strip("c")[:1] != "1":
                yield letters

    def run(self, placement: str) -> str:
        """ "0" or "c0": accepted, and where the results are; else the exception's class and sentence."""
        torch.manual_seed(0)
        values = {
            name: tensor(spec).to(DEVICES[letter])
            for name, spec, letter in zip(self.names, self.specs, placement, strict=True)
        }
        torch.manual_seed(0)
        try:
            return where(eval(self.expression, {**NAMESPACE, **values}))
        except Exception as error:
            sentence = (str(error) or " ").splitlines()[0]
            # the backends that a build has are its own matter
            return f"{type(error).__name__}: {sentence.partition(' This could be because')[0]}"


def no_grad(function: Callable[[], Any]) -> Any:
    with torch.no_grad():
        return function()


NAMESPACE = {"torch": torch, "nn": nn, "F": F, "np": np, "operator": operator, "no_grad": no_grad}


def tensor(spec: str) -> torch.Tensor:
    kind, shape_text, high, value = SPEC.fullmatch(spec).groups()  # type: ignore[union-attr]
    shape = [int(size) for size in shape_text.split("x") if size]
    if kind == "s":
        return torch.eye(*shape).to_sparse()
    if kind == "b":
        return torch.ones(shape, dtype=torch.bool)
    if kind in "inl":
        if value is not None:
            return torch.full(shape, int(value), dtype=DTYPES[kind])
        return (torch.arange(math.prod(shape)) % int(high)).reshape(shape).to(DTYPES[kind])
    return torch.randn(shape).to(DTYPES[kind])


def where(result: Any) -> str:
    if isinstance(result, torch.Tensor):
        return "c" if result.device.type == "cpu" else str(result.device.index)
    if isinstance(result, (list, tuple)):
        return "".join(map(where, result))
    return ""


def examples() -> list[Example]:
    found = []
    for line in (FOLDER / "calls.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            operands, expression = line.split(" : ", 1)
            names, specs = zip(*(operand.split("=", 1) for operand in operands.split()), strict=True)
            found.append(Example(line, names, specs, expression))
    return found


def recorded() -> dict[str, dict[str, str]]:
    """Line of calls.txt → placement → outcome."""
    data = json.loads(gzip.decompress((FOLDER / "outcomes.json.gz").read_bytes()))
    return {
        text: {
            placement: outcome for outcome, placements in outcomes.items() for placement in placements.split()
        }
        for text, outcomes in data.items()
    }


def main() -> None:
    """Write what the devices at hand do; a call that kills the process is left out on the next start."""
    warnings.simplefilter("ignore")
    target = Path(sys.argv[1])
    journal = target.with_suffix(".journal")
    done: dict[tuple[str, str], str | None] = {}
    if journal.exists():
        for line in journal.read_text().splitlines():
            text, placement, outcome = json.loads(line)
            done[text, placement] = outcome
    with journal.open("a") as out:
        for example in examples():
            for placement in example.placements():
                if (example.text, placement) not in done:
                    out.write(json.dumps([example.text, placement, None]) + "\n")
                    out.flush()
                    done[example.text, placement] = example.run(placement)
                    out.write(json.dumps([example.text, placement, done[example.text, placement]]) + "\n")
    grouped: dict[str, dict[str, str]] = {}
    for (text, placement), outcome in done.items():
        if outcome is None or GARBAGE.search(outcome):
            continue
        if BEYOND_THE_CHECKS.search(outcome):
            outcome = "accepted"
        placements = grouped.setdefault(text, {})
        placements[outcome] = f"{placements.get(outcome, '')} {placement}".strip()
    target.write_bytes(gzip.compress(json.dumps(grouped).encode(), mtime=0))


if __name__ == "__main__":
    main()
