"""Edits of calls parse, keep every comment, and do what they say."""

import ast

import pytest

from samedevice.model.diagnostic import Location
from samedevice.source.calls import SourceCalls
from samedevice.source.rewriting import apply_edits


def outer_call(text: str) -> tuple[SourceCalls, ast.Call]:
    calls = SourceCalls("program.py", text)
    assert calls.tree is not None
    return calls, next(node for node in ast.walk(calls.tree) if isinstance(node, ast.Call))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f()", "f(k=1)"),
        ("f(3)", "f(3, k=1)"),
        ("f(3,)", "f(3,k=1)"),
        ("f((3))", "f((3), k=1)"),
        ("f(*a)", "f(*a, k=1)"),
        ("f(3  # note\n)", "f(3, k=1  # note\n)"),
        ("f(\n    3,  # few\n)", "f(\n    3,k=1  # few\n)"),
        ("f('é', x)", "f('é', x, k=1)"),
        ("é = f(\n  '''\n''')", "é = f(\n  '''\n''', k=1)"),
        ("    ", None),
        ("f(k=2)", "f(k=1)"),
        ("f(k=x)", None),
        ("f(**more)", None),
    ],
)
def test_a_keyword_is_added_or_replaced(text: str, expected: str | None) -> None:
    if expected is None and not text.strip():
        assert SourceCalls("p", "(").tree is None
        return
    calls, call = outer_call(text)

    edit = calls.with_keyword(call, "k", "1")

    assert (None if edit is None else apply_edits(text, [edit])) == expected
    if expected is not None:
        ast.parse(expected)


def test_a_call_is_found_by_its_place_counted_in_characters() -> None:
    text = "é = 'ß'; y = f(x).to(device)\n"
    calls = SourceCalls("program.py", text)

    found = calls.at(Location("program.py", 1, 14, 1, 29))

    assert found is not None and calls.segment(found) == "f(x).to(device)"
    assert calls.at(Location("program.py", 1, 13, 1, 29)) is None


def test_a_method_is_taken_off_and_renamed() -> None:
    text = "y = (f(x)\n     .to(device))  # note\n"
    calls, call = outer_call(text)
    assert isinstance(call.func, ast.Attribute)

    off = apply_edits(text, [calls.without_method(call, call.func.value)])
    renamed = calls.renamed_method(call, "detach")
    assert renamed is not None

    assert off == "y = (f(x))  # note\n"
    assert apply_edits(text, [renamed]) == "y = (f(x)\n     .detach(device))  # note\n"
