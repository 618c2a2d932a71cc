"""A move behind an expression that is a move already."""

import ast

import pytest

from samedevice.rules.mending import moving
from samedevice.rules.sites import Site, Source
from samedevice.source.rewriting import edit_bytes


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x", "x.to(d)"),
        ("x + y", "(x + y).to(d)"),
        ("x.to('cpu')", "x.to(d)"),
        ("x.to(1)", "x.to(d)"),
        ("x.to(self.device)", "x.to(d)"),
        ("x.cuda()", "x.to(d)"),
        ("f(x).cuda(1)", "f(x).to(d)"),
        ("x.to(y)", "x.to(y).to(d)"),
        ("x.to(torch.half)", "x.to(torch.half).to(d)"),
        ("x.to('cpu', torch.half)", "x.to('cpu', torch.half).to(d)"),
        ("x.to('cpu', non_blocking=True)", "x.to('cpu', non_blocking=True).to(d)"),
        ("(x + y).cuda()", "(x + y).cuda().to(d)"),
    ],
)
def test_a_move_names_another_device_and_changes_nothing_else(before: str, after: str) -> None:
    source = Source("a.py", f"{before}\n")
    value = source.tree.body[0].value  # type: ignore[attr-defined]
    made = edit_bytes("a.py", source.text.encode(), moving(Site(source, value), value, "d")).decode()
    assert made == f"{after}\n"
    ast.parse(made)
