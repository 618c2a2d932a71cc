"""When colours are written and how wide a report is."""

from io import StringIO

import pytest

from samedevice.report.layout import Span, plain, prose, wrap
from samedevice.report.terminal import terminal_width, wants_color


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environ", "expected"),
    [
        (Terminal(), {}, True),
        (StringIO(), {}, False),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "dumb"}, False),
        (StringIO(), {"FORCE_COLOR": "1"}, True),
        (Terminal(), {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
    ],
)
def test_colours_follow_the_terminal_and_the_environment(stream, environ, expected):
    assert wants_color(stream, environ) is expected


def test_a_pipe_gets_eighty_columns():
    assert terminal_width(StringIO(), {}) == 80


def test_words_are_wrapped_with_their_styles():
    lines = wrap(prose("see `torch.cat` of it"), 13, [Span("- ")], [Span("  ")])

    assert [plain([line]).rstrip() for line in lines] == ["- see", "  `torch.cat`", "  of it"]
    assert lines[1][-1] == Span("`torch.cat`", "code")
