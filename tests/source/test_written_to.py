"""What a statement writes to, where a moved copy would take the result away."""

import ast

import pytest

from samedevice.rules.mutation import written_to


@pytest.mark.parametrize(
    ("statement", "written"),
    [
        ("mean.lerp_(value, 0.1)", {"mean"}),
        ("mean.mul_(0.9).add_(value)", {"mean", "mean.mul_(0.9)"}),
        ("mean.data.copy_(value)", {"mean", "mean.data"}),
        ("self.hits.view(-1)[i].add_(one)", {"self.hits", "self.hits.view(-1)", "self.hits.view(-1)[i]"}),
        ("hits[i] = one", {"hits"}),
        ("hits[i] += one", {"hits", "hits[i]"}),
        ("net.weight.data = value", {"net.weight"}),
        ("torch.add(a, b, out=c)", {"c"}),
        ("torch.max(a, 0, out=(b, c))", {"(b, c)", "b", "c"}),
        ("nn.init.normal_(weight, std=s)", {"weight"}),
        ("torch._foreach_mul_(means, decay)", {"means"}),
        ("y = x + table[i]", set()),
        ("y = x.clone().__init__(z)", set()),
        ("y = make(x).add_(z)", {"make(x)"}),
    ],
)
def test_what_a_statement_changes(statement: str, written: set[str]) -> None:
    assert {ast.unparse(node) for node in written_to(ast.parse(statement))} >= written
    names = {"value", "one", "i", "a", "s", "decay", "z", "x", "y", "table"}
    assert {ast.unparse(node) for node in written_to(ast.parse(statement))}.isdisjoint(names)
