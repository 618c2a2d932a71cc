"""What the analysis promises whatever it reads: it ends, it is the same each time, it needs no torch."""

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from linted import lint

from samedevice.lint.engine_api import Project, SourceFile, analyse_file, mentions_torch, merge

MISTAKE = """
import torch

x = torch.rand(3, device="cuda")
print(x + torch.ones(3))
"""


def test_a_file_that_names_no_framework_is_not_even_parsed() -> None:
    file = SourceFile("a.py", "def broken(:\n")

    assert analyse_file(file).diagnostics == []
    assert file.tree is None


def test_a_file_that_cannot_be_parsed_says_so() -> None:
    with pytest.raises(SyntaxError):
        analyse_file(SourceFile("a.py", "import torch\ndef broken(:\n"))


def test_the_same_source_gives_the_same_diagnostics() -> None:
    assert lint(MISTAKE) == lint(MISTAKE)
    assert [d.rule for d in lint(MISTAKE)] == ["factory-without-device"]


def test_a_mistake_seen_from_two_files_is_reported_once() -> None:
    files = {
        "helper.py": "import torch\n\n\ndef ones(n):\n    return torch.ones(n)\n",
        "one.py": 'import torch\nfrom helper import ones\n\nprint(torch.rand(3, device="cuda") + ones(3))\n',
        "two.py": 'import torch\nfrom helper import ones\n\nprint(torch.rand(3, device="cuda") * ones(3))\n',
    }
    found = lint(files)

    assert [(d.location.path, d.location.line) for d in found] == [("helper.py", 5)]


def test_what_a_result_depends_on_is_told() -> None:
    files = [
        SourceFile("helper.py", "import torch\nDEVICE = torch.device('cuda')\n", None, "helper"),
        SourceFile(
            "one.py",
            "import torch\nfrom helper import DEVICE\nprint(torch.rand(3, device=DEVICE))\n",
            None,
            "one",
        ),
    ]

    assert analyse_file(files[1], Project(files)).reads == {"helper.py"}


def test_only_selected_rules_are_reported() -> None:
    file = SourceFile("a.py", MISTAKE)

    assert analyse_file(file, None, lambda rule: rule != "factory-without-device").diagnostics == []


def test_files_that_import_each_other_end() -> None:
    files = {
        "a.py": "import torch\nfrom b import g\n\n\ndef f(x):\n    return g(x) + torch.ones(3)\n\n\nf(torch.rand(3).cuda())\n",
        "b.py": "from a import f\n\n\ndef g(x):\n    return f(x)\n",
    }

    assert all(d.rule == "factory-without-device" for d in lint(files))


def test_recursion_and_endless_loops_end() -> None:
    source = """
import torch


def forever(x, n):
    while True:
        x = forever(x, n + 1) + forever(x, n - 1)
        for _ in range(10**9):
            x = x + torch.ones(3)


forever(torch.rand(3), 0)
"""
    assert lint(source) == []


def test_many_branches_end() -> None:
    body = "\n".join(
        f"    if x.sum() > {n}:\n        x = torch.ones(3)\n    else:\n        x = y" for n in range(200)
    )
    source = (
        f"import torch\n\n\ndef many(x, y):\n{body}\n    return x\n\n\nmany(torch.rand(3), torch.rand(3))\n"
    )

    assert lint(source) == []


def test_deep_nesting_ends() -> None:
    source = "import torch\nx = torch.ones(3)\ny = " + "(" * 80 + "x" + " + 1)" * 80 + "\n"

    assert lint(source) == []


def test_merging_keeps_the_surest_and_sorts_by_place() -> None:
    found = lint(MISTAKE)

    assert merge([found, found]) == found


def test_the_cheap_test_knows_a_torch_file() -> None:
    assert mentions_torch("import torch")
    assert not mentions_torch("import numpy")


def test_the_analysis_imports_neither_torch_nor_anything_slow() -> None:
    code = (
        "import sys\n"
        "from samedevice.lint.engine_api import SourceFile, lint_files\n"
        f"assert lint_files([SourceFile('a.py', {MISTAKE!r})])\n"
        "slow = {'torch', 'numpy', 'rich', 'jinja2', 'asyncio', 'pygls', 'importlib.metadata'}\n"
        "assert not slow & set(sys.modules), slow & set(sys.modules)\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
