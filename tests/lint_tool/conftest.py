"""What the tests of the tool share: an analysis that reports what a line says, a project in a folder."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from samedevice.cli import main
from samedevice.lint import workspace
from samedevice.lint.engine_api import FileResult, Project, SourceFile
from samedevice.model.diagnostic import Confidence, Diagnostic, Evidence, Location, Severity
from samedevice.model.fix import Applicability, Edit, Fix, Point

#: `bad("rule")` is a problem; a second word says how it can be fixed
BAD = re.compile(r'bad\("(?P<rule>[\w-]+)"(?:, "(?P<how>[\w-]+)")?\)')
IMPORT = re.compile(r"^from (\w[\w.]*) import \*", re.MULTILINE)


def diagnostic(path: str, text: str, found: re.Match[str], seen_from: str) -> Diagnostic:
    line = text.count("\n", 0, found.start()) + 1
    column = found.start() - (text.rfind("\n", 0, found.start()) + 1) + 1
    end = column + len(found[0])
    how = found["how"]
    news = {
        "safe": "good()",
        "unsafe": "good()",
        "display": "good()",
        "breaks": "good((",
        "useless": found[0] + " ",
        "twice": 'bad("two", "safe")',
    }
    fix = None
    if how:
        applicability = Applicability(how) if how in ("unsafe", "display") else Applicability.SAFE
        fix = Fix(
            "Make it good", applicability, (Edit(path, Point(line, column), Point(line, end), news[how]),)
        )
    return Diagnostic(
        found["rule"],
        Severity.ERROR,
        Confidence.CERTAIN,
        "`bad` is bad",
        Location(path, line, column, line, end),
        evidence=(Evidence(Location(seen_from, 1), "seen from here"),),
        fix=fix,
    )


def analyse_words(file: SourceFile, project: Project, selected: Callable[[str], bool]) -> FileResult:
    """Reports every `bad(…)` of the file and of what it imports with `from x import *`."""
    if "crash()" in file.text:
        raise RuntimeError("the analysis has a bug")
    found = [
        diagnostic(file.path, file.text, match, file.path)
        for match in BAD.finditer(file.text)
        if not match["rule"].startswith("seen-")
    ]
    reads = set()
    for match in IMPORT.finditer(file.text):
        other = project.module(match[1])
        if other is not None:
            reads.add(other.path)
            found += [diagnostic(other.path, other.text, bad, file.path) for bad in BAD.finditer(other.text)]
    return FileResult([one for one in found if selected(one.rule)], frozenset(reads))


@pytest.fixture
def analysed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stands in for the analysis; gives the paths analysed so far, in this process."""
    paths: list[str] = []

    def analyse(file: SourceFile, project: Project, selected: Callable[[str], bool]) -> FileResult:
        paths.append(file.path)
        return analyse_words(file, project, selected)

    monkeypatch.setattr(workspace, "analyse_file", analyse)
    return paths


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Writes files into an empty folder, which is the working directory; caches stay within the test."""
    root = tmp_path / "project"
    root.mkdir()
    monkeypatch.chdir(root)
    monkeypatch.setenv("SAMEDEVICE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("SAMEDEVICE_TRACEBACK", "")
    monkeypatch.setenv("NO_COLOR", "1")

    def write(**files: str | bytes) -> Path:
        return write_all({name.replace("__", "/") + ".py": text for name, text in files.items()})

    def write_all(files: dict[str, str | bytes]) -> Path:
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return root

    write.all = write_all  # type: ignore[attr-defined]
    return write


@pytest.fixture
def lint(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs `samedevice lint` in this process; gives (status, standard output, standard error)."""

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main(["lint", *words])
        out, err = capsys.readouterr()
        return status, out, err

    return run
