"""Edits of fixes: the awkward syntax, and a property over argument lists."""

import ast

from hypothesis import given, settings
from hypothesis import strategies as st

from samedevice.model.fix import Edit
from samedevice.source import edits
from samedevice.source.rewriting import apply_edits


def parsed(text: str) -> ast.Module:
    return ast.parse(text)


def first_call(text: str) -> ast.Call:
    return next(n for n in ast.walk(parsed(text)) if isinstance(n, ast.Call))


def changed(text: str, made: Edit | list[Edit] | None) -> str:
    assert made is not None
    return apply_edits(text, made if isinstance(made, list) else [made])


def with_keyword(text: str, keyword: str = "device=d") -> str | None:
    made = edits.add_keyword("x.py", text, first_call(text), keyword)
    return None if made is None else changed(text, made)


def test_a_keyword_goes_behind_the_last_argument() -> None:
    assert with_keyword("zeros(3)\n") == "zeros(3, device=d)\n"
    assert with_keyword("zeros()\n") == "zeros(device=d)\n"
    assert with_keyword("zeros(3, dtype=t)\n") == "zeros(3, dtype=t, device=d)\n"
    assert with_keyword("zeros(*shape)\n") == "zeros(*shape, device=d)\n"


def test_trailing_commas_and_comments_stay() -> None:
    assert with_keyword("zeros(3,)\n") == "zeros(3, device=d)\n"
    assert with_keyword("zeros(3  # three\n)\n") == "zeros(3, device=d  # three\n)\n"
    assert with_keyword("zeros(\n    3,  # three\n)\n") == "zeros(\n    3, device=d,  # three\n)\n"


def test_arguments_in_parentheses_of_their_own() -> None:
    assert with_keyword("zeros((3))\n") == "zeros((3), device=d)\n"
    assert with_keyword("zeros((\n    3\n))\n") == "zeros((\n    3\n), device=d)\n"


def test_nothing_is_added_twice_or_to_unknown_keywords() -> None:
    assert with_keyword("zeros(3, device=e)\n") is None
    assert with_keyword("zeros(3, **options)\n") is None


def test_columns_are_counted_in_characters() -> None:
    assert with_keyword("é = 'ü'; zeros('ß')\n") == "é = 'ü'; zeros('ß', device=d)\n"


def test_windows_line_ends_and_tabs_stay() -> None:
    text = "for x in xs:\r\n\tuse(x)\r\n"
    loop = parsed(text).body[0]
    assert isinstance(loop, ast.For)

    assert changed(text, edits.insert_first("x.py", text, loop, "x = x.to(d)")) == (
        "for x in xs:\r\n\tx = x.to(d)\r\n\tuse(x)\r\n"
    )


def test_a_body_on_the_line_of_its_head_is_left_alone() -> None:
    text = "for x in xs: use(x)\n"
    loop = parsed(text).body[0]
    assert isinstance(loop, ast.For)

    assert edits.insert_first("x.py", text, loop, "x = x.to(d)") is None


def test_a_method_call_gets_parentheses_where_it_needs_them() -> None:
    for text, expected in (
        ("use(x)\n", "use(x.to(d))\n"),
        ("use(a + b)\n", "use((a + b).to(d))\n"),
        ("use((a + b))\n", "use((a + b).to(d))\n"),
        ("use(-x)\n", "use((-x).to(d))\n"),
        ("use(a if b else c)\n", "use((a if b else c).to(d))\n"),
        ("use(x[0])\n", "use(x[0].to(d))\n"),
    ):
        assert changed(text, edits.method_call("x.py", text, first_call(text).args[0], ".to(d)")) == expected


def test_the_result_of_a_statement_is_assigned() -> None:
    for text, expected in (
        ("x.to(d)\n", "x = x.to(d)\n"),
        ("batch['x'].cuda()\n", "batch['x'] = batch['x'].cuda()\n"),
        ("self.x.to(d)  # up\n", "self.x = self.x.to(d)  # up\n"),
    ):
        statement = parsed(text).body[0]
        assert isinstance(statement, ast.Expr)

        assert changed(text, edits.assign_result("x.py", text, statement)) == expected


def test_a_call_cannot_be_assigned_to() -> None:
    text = "make().to(d)\n"
    statement = parsed(text).body[0]
    assert isinstance(statement, ast.Expr)

    assert edits.assign_result("x.py", text, statement) is None


def test_a_line_behind_a_statement_keeps_its_comment_and_depth() -> None:
    text = "if a:\n    step()  # now\n    more()\n"
    block = parsed(text).body[0]
    assert isinstance(block, ast.If)

    assert changed(text, edits.insert_after("x.py", text, block.body[0], "clear()")) == (
        "if a:\n    step()  # now\n    clear()\n    more()\n"
    )


ARGUMENTS = st.sampled_from(
    ["3", "(3)", "'ß'", "*shape", "x.shape[0]", "[1, 2]", "dtype=t", "f(1, 2)", "-1", "lambda: 0", "'#'"]
)
GAPS = st.sampled_from(["", " ", "\n    ", "  # ü\n    ", "\n\n", "\t"])


@st.composite
def calls(draw: st.DrawFn) -> str:
    """A call whose arguments stand among comments, line breaks and commas."""
    arguments = draw(st.lists(ARGUMENTS, max_size=4))
    positional = [a for a in arguments if not a.startswith("dtype")]
    keywords = [a for a in arguments if a.startswith("dtype")][:1]
    parts = [draw(GAPS) + a + draw(GAPS) for a in (*positional, *keywords)]
    tail = draw(st.sampled_from(["", ",", ", "])) if parts else ""
    return f"name = zeros({','.join(parts)}{tail}{draw(GAPS)})  # end\n"


@given(calls())
@settings(max_examples=400)
def test_any_call_stays_parsable_and_keeps_its_comments(text: str) -> None:
    made = edits.add_keyword("x.py", text, first_call_of_statement(text), "device=d")
    assert made is not None
    result = changed(text, made)
    call = first_call_of_statement(result)

    assert call.keywords[-1].arg == "device"
    assert edits.comments(result) == edits.comments(text)
    assert len(call.args) == len(first_call_of_statement(text).args)


def first_call_of_statement(text: str) -> ast.Call:
    statement = parsed(text).body[0]
    assert isinstance(statement, ast.Assign)
    assert isinstance(statement.value, ast.Call)
    return statement.value
