"""`samedevice rule` shows what a rule means."""

import pytest

from samedevice.cli import main
from samedevice.rules import all_rules


@pytest.mark.parametrize("name", all_rules())
def test_every_rule_has_a_page_with_an_example_and_its_remedy(name, capsys):
    assert main(["rule", name]) == 0

    text = capsys.readouterr().out
    assert text.startswith(f"# {name}\n")
    assert all_rules()[name].lesson in text
    for heading in ("## Why is this bad?", "## Example", "Use instead:", "## Fix safety"):
        assert heading in text


def test_without_a_name_all_rules_are_listed(capsys):
    assert main(["rule"]) == 0

    text = capsys.readouterr().out
    assert [name for name in all_rules() if f"  {name} " not in text] == []
    assert max(map(len, text.splitlines())) <= 80


def test_a_name_that_no_rule_has_brings_the_nearest_ones(capsys):
    assert main(["rule", "unregistred-tensor"]) == 2

    assert "did you mean `unregistered-tensor`" in capsys.readouterr().err


def test_on_a_terminal_the_page_has_colours(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)

    assert main(["rule", "unregistered-tensor"]) == 0
    assert "\x1b[" in capsys.readouterr().out
