"""Which moves lose their result, told from the source alone."""

import ast

import executing
import pytest

from samedevice.program.discards import is_thrown_away, unused_moves_of


def moves(code, tmp_path):
    """The calls of `.to` in a piece of code, in the order of the text."""
    file = tmp_path / "program.py"
    file.write_text(code)
    tree = executing.Source.for_filename(str(file)).tree
    found = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and getattr(n.func, "attr", "") == "to"]
    return tree, sorted(found, key=lambda n: (n.lineno, n.col_offset))


@pytest.mark.parametrize(
    "code",
    [
        "x.to(d)",
        "x.to(d).float()",
        "[t.to(d) for t in batch]",
        "for t in batch:\n    t = t.to(d)",
        "def f(x):\n    x = x.to(d)",
        "def f(x, y):\n    x, y = x.to(d), y.to(d)",
        "def f(batch):\n    for k, v in batch.items():\n        v = v.to(d)\n    return batch",
    ],
)
def test_a_move_that_nobody_takes_is_thrown_away(code, tmp_path):
    _, found = moves(code, tmp_path)

    assert all(is_thrown_away(call) for call in found)


@pytest.mark.parametrize(
    "code",
    [
        "x = x.to(d)",
        "y = f(x.to(d))",
        "def f(x):\n    return x.to(d)",
        "def f(x):\n    x = x.to(d)\n    return x",
        "def f(x):\n    for _ in range(3):\n        use(x)\n        x = x.to(d)",
        "for t in batch:\n    t = t.to(d)\n    use(t)",
        "self.x = x.to(d)",
        "batch = [t.to(d) for t in batch]",
        "def f(x):\n    global y\n    y = x.to(d)",
        "x, y = x.to(d), y.to(d)",
    ],
)
def test_a_move_whose_result_is_used_is_not(code, tmp_path):
    _, found = moves(code, tmp_path)

    assert not any(is_thrown_away(call) for call in found)


def test_a_statement_above_the_use_is_found_by_name(tmp_path):
    tree, found = moves("batch.to(d)\nother.to(d)\nuse(batch)\nbatch.to(d)", tmp_path)

    assert unused_moves_of(tree, "batch", before=3) == [found[0]]
