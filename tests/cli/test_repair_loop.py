"""The loop of `check --fix`: what a run does not prove is taken back. The program is played, not run."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from samedevice.cli.fixing import untried
from samedevice.cli.repair import Repair, Repaired
from samedevice.cli.trials import Files, Trial
from samedevice.model.diagnostic import Confidence, Diagnostic, Location, Raised, Severity, TensorFact
from samedevice.model.errors import UserError
from samedevice.model.fix import Applicability, Edit, Fix, Point
from samedevice.model.outcome import Outcome

#: what a line of the played program says: `bad NAME -> a | b` is a problem, with the texts its fixes write
LINE = re.compile(r"bad (\w+)(?: in (\w+))? -> (.*)")


class Played:
    """A program whose behaviour is written in its file; each line that begins with `bad` is a problem."""

    def __init__(
        self, file: Path, prints: Callable[[str], str] = lambda text: "loss 1\n", path: str | None = None
    ) -> None:
        self.file = file
        self.path = path or file.name
        self.prints = prints
        self.count = 0
        self.applicability = Applicability.UNSAFE
        self.plain_prints: Callable[[str], str] | None = None
        self.seen: list[str] = []

    def check(self, *, show: bool = False) -> Trial:
        self.count += 1
        text = self.file.read_text()
        self.seen.append(text)
        if text.startswith("crash"):
            return Trial(2, b"", Outcome("check", program="raised ValueError: no"))
        if text.startswith("interrupt"):
            raise KeyboardInterrupt
        problems, fixes = [], []
        for number, line in enumerate(text.splitlines(), 1):
            found = LINE.search(line)
            if found is None:
                continue
            place = Location(self.path, number, 1, number, len(line) + 1)
            problems.append(
                Diagnostic(
                    rule=found[2] or "factory-without-device",
                    severity=Severity.ERROR,
                    confidence=Confidence.CERTAIN,
                    message=f"{found[1]} is bad",
                    location=place,
                    raised=Raised(place, "RuntimeError", "no"),
                    tensors=(TensorFact(found[1], "cpu", at_fault=True),),
                )
            )
            fixes.append(
                tuple(self._fix(new, number, line) for new in found[3].rstrip(" #").split(" | ") if new)
            )
        outcome = Outcome("check", tuple(problems), program="finished")
        return Trial(1 if problems else 0, self.prints(text).encode(), outcome, tuple(fixes))

    def _fix(self, new: str, number: int, line: str) -> Fix:
        edit = Edit(self.path, Point(number, 1), Point(number, len(line) + 1), f"{new}  #")
        return Fix(f"write {new}", self.applicability, (edit,))

    def plain(self) -> Trial:
        prints = self.plain_prints or self.prints
        return Trial(0, prints(self.file.read_text()).encode())


def play(tmp_path: Path, *lines: str, unsafe: bool = True, **more: object) -> tuple[Repaired, Played, str]:
    """Repair a played program; what came of it, the runs, and the file afterwards."""
    file = tmp_path / "program.py"
    file.write_text("".join(f"# {line}\n" for line in lines))
    played = Played(file)
    for name, value in more.items():
        setattr(played, name, value)
    files = Files(str(tmp_path))
    repaired = Repair(played, files, unsafe=unsafe).repair(played.check())
    return repaired, played, file.read_text()


def test_all_problems_are_fixed_at_once_and_proven_by_one_more_run(tmp_path: Path) -> None:
    repaired, played, text = play(tmp_path, "bad a -> good = 1", "fine", "bad b -> good = 2")
    assert text == "good = 1  #\n# fine\ngood = 2  #\n"
    assert [one.run for one in repaired.made] == [2, 2]
    assert played.count == 2
    assert not repaired.trial.outcome.diagnostics  # type: ignore[union-attr]


def test_an_edit_that_leaves_its_problem_is_taken_back_and_the_next_is_tried(tmp_path: Path) -> None:
    repaired, _, text = play(tmp_path, "bad a -> # bad a -> | good = 1")
    assert text == "good = 1  #\n"
    assert [reason for *_, reason in repaired.taken_back] == ["the problem is still there"]


def test_one_failing_edit_does_not_cost_the_others(tmp_path: Path) -> None:
    repaired, _, text = play(tmp_path, "bad a -> # bad a ->", "bad b -> good = 2")
    assert text.endswith("good = 2  #\n")
    assert [one.diagnostic.message for one in repaired.made] == ["b is bad"]
    assert [p.message for p in repaired.trial.outcome.diagnostics] == ["a is bad"]  # type: ignore[union-attr]


def test_an_edit_that_brings_a_problem_for_which_there_is_no_fix_is_taken_back(tmp_path: Path) -> None:
    repaired, _, text = play(tmp_path, "bad a -> pass # and quite a bit further bad other ->")
    assert text == "# bad a -> pass # and quite a bit further bad other ->\n"
    assert repaired.made == ()
    assert [reason for *_, reason in repaired.taken_back] == ["it brings a new problem"]


def test_an_edit_with_which_the_program_fails_is_taken_back(tmp_path: Path) -> None:
    repaired, _, text = play(tmp_path, "bad a -> crash = 1")
    assert text == "# bad a -> crash = 1\n"
    assert "fails with it (raised ValueError: no)" in repaired.taken_back[0][2]


def test_an_edit_that_does_not_parse_is_never_run(tmp_path: Path) -> None:
    repaired, played, _ = play(tmp_path, "bad a -> def (")
    assert "would not parse" in repaired.taken_back[0][2]
    assert played.count == 1


def prints_by_content(text: str) -> str:
    return "loss 2\n" if re.search(r"^other = 1", text, re.MULTILINE) else "loss 1\n"


def test_an_edit_that_changes_what_is_printed_is_taken_back(tmp_path: Path) -> None:
    repaired, _, text = play(tmp_path, "bad a -> other = 1 | good = 1", prints=prints_by_content)
    assert text == "good = 1  #\n"
    assert [reason for *_, reason in repaired.taken_back] == ["the program prints something else with it"]


def test_names_of_devices_in_the_output_do_not_count(tmp_path: Path) -> None:
    prints = lambda text: "on cuda:0\n" if text.startswith("good") else "on cpu\n"  # noqa: E731
    _, _, text = play(tmp_path, "bad a -> good = 1", prints=prints, plain_prints=lambda text: "on cpu\n")
    assert text == "good = 1  #\n"


def test_a_tensor_is_printed_with_its_gpu_and_that_does_not_count(tmp_path: Path) -> None:
    on_gpu = "tensor([1., 2.], device='cuda:0')\n"
    prints = lambda text: on_gpu if text.startswith("good") else "tensor([1., 2.])\n"  # noqa: E731
    _, _, text = play(
        tmp_path, "bad a -> good = 1", prints=prints, plain_prints=lambda text: "tensor([1., 2.])\n"
    )
    assert text == "good = 1  #\n"


def test_an_edit_that_makes_the_program_print_what_it_prints_on_the_cpu_stays(tmp_path: Path) -> None:
    prints = lambda text: "loss 1\n" if text.startswith("good") else "loss 2\n"  # noqa: E731
    _, _, text = play(tmp_path, "bad a -> good = 1", prints=prints, plain_prints=lambda text: "loss 1\n")
    assert text == "good = 1  #\n"


def test_an_edit_that_was_taken_back_is_not_offered_again(tmp_path: Path) -> None:
    repaired, _, _ = play(
        tmp_path, "bad a -> # bad a -> | # bad a -> # more", "bad b -> good = 1", unsafe=True
    )
    files = Files(str(tmp_path))
    assert repaired.trial.outcome is not None
    problems = zip(repaired.trial.outcome.diagnostics, repaired.trial.fixes, strict=True)
    left = [untried(problem, fixes, repaired, files) for problem, fixes in problems]
    assert left == [None]


def test_a_program_that_never_prints_the_same_twice_is_not_held_to_its_output(tmp_path: Path) -> None:
    numbers = iter(range(100))
    _, _, text = play(tmp_path, "bad a -> good = 1", prints=lambda text: f"{next(numbers)} s\n")
    assert text == "good = 1  #\n"


def test_modules_that_are_trained_from_now_on_may_change_the_losses(tmp_path: Path) -> None:
    line = "bad a in module_in_container -> other = 1"
    repaired, _, text = play(tmp_path, line, prints=prints_by_content)
    assert text.startswith("# bad a in")  # no rule of that name: the output must stay
    assert repaired.made == ()


def test_an_edit_that_changes_the_output_on_the_plain_cpu_is_taken_back(tmp_path: Path) -> None:
    repaired, _, text = play(tmp_path, "bad a -> other = 1", plain_prints=prints_by_content)
    assert text == "# bad a -> other = 1\n"
    assert "on the CPU" in repaired.taken_back[0][2]


def test_unsafe_edits_are_made_on_demand_only(tmp_path: Path) -> None:
    repaired, played, _ = play(tmp_path, "bad a -> good = 1", unsafe=False)
    assert (repaired.made, played.count) == ((), 1)
    _, _, text = play(tmp_path, "bad a -> good = 1", unsafe=False, applicability=Applicability.SAFE)
    assert text == "good = 1  #\n"


def test_files_outside_the_working_directory_are_not_edited(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside.py", tmp_path / "work"
    inside.mkdir()
    outside.write_text("# bad a -> good = 1\n")
    played = Played(outside, path=str(outside))
    repaired = Repair(played, Files(str(inside)), unsafe=True).repair(played.check())
    assert repaired.made == ()
    assert outside.read_text() == "# bad a -> good = 1\n"


def test_each_file_that_is_not_edited_has_its_reason(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside.py", tmp_path / "work"
    installed = inside / ".venv" / "lib" / "site-packages"
    installed.mkdir(parents=True)
    for file in (outside, inside / "own.py", installed / "package.py", inside / "late.py"):
        file.write_text("x = 1\n")
    (inside / "link.py").symlink_to(outside)
    (inside / "second.py").symlink_to("own.py")
    files = Files(str(inside))
    late = files.began + 1
    os.utime(inside / "late.py", ns=(late, late))
    told = {
        path: files.obstacle(path)
        for path in (
            "own.py",
            "second.py",
            "link.py",
            str(outside),
            "late.py",
            ".venv/lib/site-packages/package.py",
        )
    }
    assert [path for path, reason in told.items() if reason is None] == ["own.py", "second.py"]
    assert "a link to a file outside the working directory" in (told["link.py"] or "")
    assert "outside the working directory and is not edited; run from a folder above" in (
        told[str(outside)] or ""
    )
    assert "changed while the program ran" in (told["late.py"] or "")
    assert "installed package" in (told[".venv/lib/site-packages/package.py"] or "")


def test_one_file_that_cannot_be_put_back_does_not_keep_the_others(tmp_path: Path) -> None:
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text("a = 1\n")
    two.write_text("b = 1\n")
    files = Files(str(tmp_path))
    files.read("one.py")
    files.read("two.py")
    files.write({"one.py": b"a = 2\n", "two.py": b"b = 2\n"})
    one.write_text("a = 3  # by somebody else\n")
    with pytest.raises(UserError, match=r"`one\.py`: the file has changed meanwhile"):
        files.write({})
    assert (one.read_text(), two.read_text()) == ("a = 3  # by somebody else\n", "b = 1\n")


def test_the_files_are_as_they_were_after_an_interruption(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text("# bad a -> interrupt = 1\n")
    before = file.stat().st_mtime_ns
    played, files = Played(file), Files(str(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        Repair(played, files, unsafe=True).repair(played.check())
    assert file.read_text() == "interrupt = 1  #\n"
    files.write({})
    assert file.read_text() == "# bad a -> interrupt = 1\n"
    assert file.stat().st_mtime_ns == before


def test_a_file_that_somebody_else_changes_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text("a = 1\n")
    files = Files(str(tmp_path))
    files.read("program.py")
    file.write_text("a = 2\n")
    with pytest.raises(UserError, match="has changed meanwhile"):
        files.write({"program.py": b"a = 3\n"})
    assert file.read_text() == "a = 2\n"
