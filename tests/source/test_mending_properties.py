"""Edits of repairs in any layout: they parse, keep every comment, touch nothing else, and are made once."""

import ast
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from samedevice.model.fix import Fix
from samedevice.rules import mending, mending_modules
from samedevice.rules.sites import Site, Source
from samedevice.source.edits import comments
from samedevice.source.rewriting import EditError, edit_bytes
from tests.source.undoing import undone

#: what may stand between two tokens in parentheses
GAPS = st.sampled_from(
    ["", " ", "\n        ", "  # äöü 🙂\n        ", "\n\n        # (a, b)\n        ", "\t"]
)
ENDS = st.sampled_from(["\n", "\r\n"])
INDENTS = st.sampled_from(["    ", "\t", "  "])
BEFORE = st.sampled_from(["", '"🙂"; ', "y = 1; "])
BEHIND = st.sampled_from(["", "  # kept: # twice", "; z = 2"])


@st.composite
def calls(draw: st.DrawFn) -> str:
    """A factory call in some layout."""
    gaps = [draw(GAPS) for _ in range(5)]
    comma = draw(st.sampled_from(["", ","]))
    wrapped = draw(st.sampled_from(["1.0", "(1.0)", "x.shape[0]", "*()", "float('1')"]))
    return f"torch.full({gaps[0]}(2,){gaps[1]},{gaps[2]}{wrapped}{gaps[3]}{comma}{gaps[4]})"


@st.composite
def functions(draw: st.DrawFn, expressions: st.SearchStrategy[str], statement: str) -> str:
    """A function with the expression in a statement."""
    indent, expression = draw(INDENTS), draw(expressions)
    behind = draw(BEHIND)
    line = statement.format(expression)
    head = draw(st.sampled_from(["", "@torch.no_grad()\n", "# nothing\n"]))
    text = f"import torch\nfrom torch import nn\n{head}def f(self, x: torch.Tensor):\n{indent}{draw(BEFORE)}{line}{behind}\n"
    text += f"{indent}return x  # the end\n"
    return text.replace("\n", draw(ENDS))


def the_call(text: str, name: str) -> Site:
    """The site of the call of a function."""
    source = Source("a.py", text)
    found = (n for n in ast.walk(source.tree) if isinstance(n, ast.Call))
    return Site(source, next(n for n in found if ast.unparse(n.func).endswith(name)))


def made(text: str, fix: Fix) -> str | None:
    """The text with the fix in it; None when it would not be made."""
    try:
        return edit_bytes("a.py", text.encode(), fix.edits).decode()
    except EditError:
        return None


def held(text: str, fixes: Iterator[Fix]) -> list[str]:
    """The texts that the fixes make, each held to what every edit promises."""
    found = []
    for fix in fixes:
        new = made(text, fix)
        if new is None:
            continue
        ast.parse(new)
        assert sorted(comments(new)) == sorted(comments(text))
        assert undone("a.py", text, new, fix) == text
        lines = {n for e in fix.edits for n in range(e.start.line, e.end.line + 1)}
        old, shown = text.splitlines(), new.splitlines()
        assert old[: min(lines) - 1] == shown[: min(lines) - 1]
        assert old[max(lines) :] == shown[len(shown) - (len(old) - max(lines)) :]
        assert new.count("\n") - new.count("\r\n") in (0, new.count("\n"))
        found.append(new)
    return found


@given(functions(calls(), "t = {}"))
@settings(max_examples=150, deadline=None)
def test_a_factory_gets_its_device_once_in_any_layout(text: str) -> None:
    new = held(text, mending.on_device(the_call(text, "full"), "cuda:0"))
    named = [n for n in new if "device=x.device" in n]

    for once in named:
        assert ast.unparse(ast.parse(once)).count("device=x.device") == 1
        assert all(
            again.count("device=") == 1
            for again in held(once, mending.on_device(the_call(once, "full"), "cuda:0"))
        )


@given(functions(calls(), "self.table = {}"))
@settings(max_examples=150, deadline=None)
def test_a_buffer_is_registered_once_in_any_layout(text: str) -> None:
    for new in held(text, mending_modules.as_buffer(the_call(text, "full"))):
        assert new.count('self.register_buffer("table", ') == 1
        assert list(mending_modules.as_buffer(the_call(new, "full"))) == []


@given(functions(st.sampled_from(["x.to(0)", "x . to(\n        0)", "x.to(  # why\n        0)"]), "{}"))
@settings(max_examples=60, deadline=None)
def test_a_copy_is_assigned_once_in_any_layout(text: str) -> None:
    for new in held(text, mending.assigned(the_call(text, "to"))):
        assert list(mending.assigned(the_call(new, "to"))) == []


@given(
    functions(
        st.sampled_from(["nn.Linear(2, 2)", "nn.Linear(\n        2,  # in\n        2)"]),
        "self.parts = [{}, nn.ReLU()]",
    )
)
@settings(max_examples=60, deadline=None)
def test_a_list_becomes_a_module_list_once_in_any_layout(text: str) -> None:
    for new in held(text, mending_modules.as_container(the_call(text, "Linear"))):
        assert new.count("nn.ModuleList([") == 1
        assert list(mending_modules.as_container(the_call(new, "Linear"))) == []
