"""Every example has the mistakes that it is meant to have, found in one run each."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"

#: sums depend on how many threads share them
ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1"}

#: example -> (words after `check`, {(rule, file, text of the line where the mistake is)})
EXPECTED = {
    "a run that dies in its evaluation": (
        ["dies_in_evaluation.py"],
        {("unregistered-tensor", "dies_in_evaluation.py", "self.log_prior = prior.log()")},
    ),
    "a script that is fine on a laptop": (
        ["fine_on_my_laptop.py"],
        {("factory-without-device", "fine_on_my_laptop.py", "return torch.zeros(1, batch, self.width)")},
    ),
    "CUDA tests of a library": (
        ["-m", "pytest", "-q", "-p", "no:cacheprovider", "cuda_tests"],
        {("cached-on-first-device", "cuda_tests/rotary.py", "self.tables = angles.cos(), angles.sin()")},
    ),
    "a mistake in what one of two ranks runs": (
        ["--nproc-per-node", "2", "two_ranks.py"],
        {
            (
                "accumulator-on-cpu",
                "two_ranks.py",
                "right, seen = torch.zeros(CLASSES), torch.zeros(CLASSES)",
            )
        },
    ),
    "three mistakes over several files": (
        ["-m", "three_mistakes", "--epochs", "1", "--words", "256"],
        {
            ("unregistered-tensor", "three_mistakes/model.py", "self.positions = sinusoids(longest, width)"),
            (
                "loss-weight-not-moved",
                "three_mistakes/train.py",
                "self.criterion = nn.CrossEntropyLoss(weight=weights)",
            ),
            ("copy-left-behind", "three_mistakes/train.py", "self.average = Average(self.model)"),
        },
    ),
}


def check(words: list[str], output: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "samedevice", "check", "--format", "json", "--output", str(output), *words],
        cwd=EXAMPLES,
        env=ONE_THREAD,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.torch
@pytest.mark.parametrize(("words", "expected"), EXPECTED.values(), ids=EXPECTED)
def test_exactly_the_mistakes_of_an_example_are_found(words, expected, tmp_path):
    done = check(words, tmp_path / "report.json")
    report = json.loads((tmp_path / "report.json").read_text())
    actual = set()
    for d in report["diagnostics"]:
        path, line = d["location"]["path"], d["location"]["line"]
        actual.add((d["rule"], path, (EXAMPLES / path).read_text().splitlines()[line - 1].strip()))

    assert actual == expected, done.stderr
    assert (done.returncode, report["summary"]["program"]) == (1, "finished")


@pytest.mark.torch
def test_a_checked_program_prints_what_it_prints_on_the_cpu(tmp_path):
    plain = subprocess.run(
        [sys.executable, "dies_in_evaluation.py"],
        cwd=EXAMPLES,
        env=ONE_THREAD,
        capture_output=True,
        text=True,
        check=True,
    )
    checked = check(["dies_in_evaluation.py"], tmp_path / "report.json")

    assert checked.stdout == plain.stdout


def test_the_program_with_three_mistakes_has_the_size_of_a_real_one():
    files = list((EXAMPLES / "three_mistakes").glob("*.py"))

    assert len(files) >= 5
    assert sum(len(file.read_text().splitlines()) for file in files) >= 300


def test_every_example_is_in_the_list_of_examples():
    listed = (EXAMPLES / "README.md").read_text()
    names = {path.name for path in EXAMPLES.iterdir() if not path.name.startswith((".", "_", "README"))}

    assert {name for name in names if name not in listed} == set()
