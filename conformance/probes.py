"""The calls that gpu_check.py makes: recorded ones, situations, and PyTorch's own operators.

A probe is one call with its operands in certain places. Its outcome is where the results are, or the class and
first sentence of the exception.
"""

import itertools
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "virtual"))

from conformance import replay, situations  # noqa: E402

#: values that index: on a real GPU one out of range ends the CUDA context, so these run last
RISKY = re.compile(
    "index|gather|scatter|take|put|embedding|nll|entropy|margin|one_hot|bincount|multinomial|ctc|histc|unpool|assert"
)
DTYPES = (torch.float32, torch.int64, torch.bool, torch.complex64, torch.float64, torch.float16)
ACCIDENTAL = re.compile(r"0x[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class Probe:
    """One call; `recorded` is the outcome in the project's data, where it is known."""

    name: str
    run: Callable[[], str]
    recorded: str = ""


def calls(gpus: int) -> Iterator[Probe]:
    """Each line of calls.txt on each placement that the machine has."""
    known = replay.recorded()
    for example in replay.examples():
        for placement in example.placements():
            if gpus > 1 or "1" not in placement:
                yield Probe(
                    f"{example.text} [{placement}]",
                    lambda example=example, placement=placement: example.run(placement),  # type: ignore[misc]
                    known.get(example.text, {}).get(placement, ""),
                )


def lived(gpus: int) -> Iterator[Probe]:
    """Each situation that the machine's GPUs suffice for."""
    for situation in situations.all_situations():
        if gpus > 1 or not re.search(r"cuda:[1-9]|cuda\([1-9]|_device\(1|device_count", situation.code):
            yield Probe(f"{situation.title}: {situation.code}", situation.run, situation.expected)


def operators(only: str) -> Iterator[Probe]:
    """Each operator of PyTorch's own list with one operand out of place, on both sides, and none."""
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.utils._pytree import tree_flatten, tree_unflatten

    for op in op_db:
        name = f"{op.name} {op.variant_test_name}".strip()
        if not re.search(only, name):
            continue
        torch.manual_seed(0)
        try:
            dtype = next(dtype for dtype in DTYPES if op.supports_dtype(dtype, "cpu"))
            samples = itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=False), 12)
            flat, spec = max(
                (tree_flatten((sample.input, sample.args, sample.kwargs)) for sample in samples),
                key=lambda found: sum(isinstance(value, torch.Tensor) for value in found[0]),
            )
        except Exception:
            continue  # no dtype of ours, or a sample that this build cannot make
        places = [i for i, value in enumerate(flat) if isinstance(value, torch.Tensor)]
        for placement in _placements(len(places)):

            def run(
                op: Any = op,
                flat: Any = flat,
                spec: Any = spec,
                places: Any = places,
                placement: str = placement,
            ) -> str:
                values = list(flat)
                for i, letter in zip(places, placement, strict=True):
                    values[i] = flat[i].clone().to(replay.DEVICES[letter])
                first, args, kwargs = tree_unflatten(values, spec)
                try:
                    torch.manual_seed(0)
                    return str(replay.where(tree_flatten(op.op(first, *args, **kwargs))[0]))
                except Exception as error:
                    sentence = (
                        (str(error).strip() or " ").splitlines()[0].partition(" This could be because")[0]
                    )
                    return ACCIDENTAL.sub("0x…", f"{type(error).__name__}: {sentence}")

            yield Probe(f"{name} [{placement}]", run)


def _placements(count: int) -> list[str]:
    one_out = ["0" * i + "c" + "0" * (count - i - 1) for i in range(count)]
    return sorted({"0" * count, *one_out[:6], *(one.translate({48: "c", 99: "0"}) for one in one_out[:6])})


def probes(gpus: int, only: str) -> Iterator[Probe]:
    """All of them, those last that could end the CUDA context; `only` is a pattern of names."""
    found = [probe for probe in (*calls(gpus), *lived(gpus)) if re.search(only, probe.name)]
    yield from sorted(found, key=lambda probe: bool(RISKY.search(probe.name)))
    yield from sorted(operators(only), key=lambda probe: bool(RISKY.search(probe.name)))
