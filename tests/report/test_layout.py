"""Styled lines: wrapping and measuring."""

from samedevice.report.layout import Span, cells, plain, prose, wrap


def test_words_are_wrapped_with_their_styles():
    lines = wrap(prose("see `torch.cat` of it"), 13, [Span("- ")], [Span("  ")])

    assert [plain([line]).rstrip() for line in lines] == ["- see", "  `torch.cat`", "  of it"]
    assert lines[1][-1] == Span("`torch.cat`", "code")


def test_a_path_is_never_broken():
    path = "/a/very/long/path/that/does/not/fit.py"

    assert wrap([Span("in"), Span(" "), Span(path, "path")], 12)[-1] == (Span(path, "path"),)


def test_a_word_longer_than_a_line_is_split():
    lines = wrap([Span("x" * 25)], 10)

    assert [cells(plain([line]).rstrip()) for line in lines] == [10, 10, 5]
