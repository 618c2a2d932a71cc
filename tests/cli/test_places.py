"""The places of an edited text as places of the text that the disk still has."""

from samedevice.cli.places import on_disk
from samedevice.model.diagnostic import Confidence, Diagnostic, Evidence, Location, Severity
from samedevice.model.fix import Applicability, Edit, Fix, Point
from samedevice.model.outcome import Outcome

OLD = b"import torch\nx = torch.ones(2)\ny = x.numpy()\nz = 1\n"
NEW = b"import torch\nx = torch.ones(2)\nx = x.to(0)\ny = x.cpu().numpy()\nz = 1\n"


def problem(line: int, path: str = "a.py") -> Diagnostic:
    place = Location(path, line, 5, line, 6)
    edit = Edit(path, Point(line, 5), Point(line, 6), "w")
    return Diagnostic(
        rule="device-mismatch",
        severity=Severity.ERROR,
        confidence=Confidence.CERTAIN,
        message="m",
        location=place,
        evidence=(Evidence(place, "here"),),
        fix=Fix("t", Applicability.SAFE, (edit,)),
    )


def placed(line: int, path: str = "a.py") -> Diagnostic:
    outcome = Outcome("check", (problem(line, path),))
    return on_disk(outcome, {"a.py": (OLD, NEW)}).diagnostics[0]


def test_a_line_that_was_not_edited_is_where_it_was() -> None:
    assert placed(5).location == Location("a.py", 4, 5, 4, 6)
    assert placed(5).evidence[0].location.line == 4
    assert placed(2).location == Location("a.py", 2, 5, 2, 6)


def test_an_edited_line_is_named_without_columns() -> None:
    assert placed(3).location == Location("a.py", 3, 1)
    assert placed(4).location == Location("a.py", 3, 1)


def test_an_edit_of_the_edited_text_is_not_offered() -> None:
    assert placed(5).fix is None
    assert placed(5, "b.py") == problem(5, "b.py")
