"""What the lint tool calls: source files in, diagnostics out; the analysis itself stays behind."""

import ast
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from samedevice.model.diagnostic import Diagnostic

#: A file that mentions none of these words cannot hold a tensor; it is neither parsed nor analysed.
MARKERS = ("torch", "lightning", "accelerate", "transformers", "import_module", "monai", "fastai")


IMPORTED = re.compile(r"^(?:from\s+([\w.]+)\s+import|import\s+([\w.]+))", re.MULTILINE)


@dataclass(eq=False, slots=True)
class SourceFile:
    """One Python source: for a notebook the code of its cells, joined.

    Attributes:
        path: as it is shown in diagnostics.
        text: the decoded source, line ends untouched.
        tree: the syntax tree, parsed at first need when not given.
        module_name: dotted name under which other files import it, None if it has none.
    """

    path: str
    text: str
    tree: ast.Module | None = None
    module_name: str | None = None
    lines: list[str] = field(default_factory=list, repr=False)

    def parsed(self) -> ast.Module:
        """The syntax tree.

        Raises:
            SyntaxError, ValueError, RecursionError: as `ast.parse` does.
        """
        if self.tree is None:
            self.tree = ast.parse(self.text, self.path)
        return self.tree

    @property
    def is_package(self) -> bool:
        """True for an `__init__.py`, whose relative imports start at itself."""
        return self.path.replace("\\", "/").rpartition("/")[2] == "__init__.py"


@dataclass(slots=True)
class FileResult:
    """What the analysis of one file gave.

    Attributes:
        diagnostics: in order of location; some may lie in imported files.
        reads: paths of the other project files that the result depends on.
    """

    diagnostics: list[Diagnostic]
    reads: frozenset[str] = frozenset()


class Project:
    """The files that may import each other.

    `load` is asked for a module that is not among `files`: it gets a dotted name and gives the
    file or None, so that a folder's files need not all be read before the first is analysed.
    """

    def __init__(
        self, files: Iterable[SourceFile] = (), load: Callable[[str], SourceFile | None] | None = None
    ) -> None:
        self._modules: dict[str, SourceFile | None] = {}
        self._load = load
        self.files: list[SourceFile] = []
        #: what is worth keeping from file to file (class tables …), by any key
        self.memo: dict[object, object] = {}
        for file in files:
            self.add(file)

    def add(self, file: SourceFile) -> None:
        """Make `file` importable under its module name."""
        self.files.append(file)
        if file.module_name:
            self._modules[file.module_name] = file

    def module(self, name: str) -> SourceFile | None:
        """The file that `import name` would run, None when it is no file of the project."""
        if name not in self._modules:
            self._modules[name] = self._load(name) if self._load is not None else None
        return self._modules[name]


def mentions_torch(text: str) -> bool:
    """False when nothing in `text` can be a tensor: the cheap test before parsing."""
    return any(marker in text for marker in MARKERS)


def uses_project(file: SourceFile, project: "Project | None") -> bool:
    """Whether a file that names no framework drives project files that do."""
    if project is None or not ("cuda" in file.text or "device" in file.text):
        return False
    for found in IMPORTED.finditer(file.text):
        imported = project.module(found.group(1) or found.group(2))
        if imported is not None and imported is not file and mentions_torch(imported.text):
            return True
    return False


def everything(rule: str) -> bool:
    """The selection that has every rule."""
    return True


def analyse_file(
    file: SourceFile, project: Project | None = None, selected: Callable[[str], bool] = everything
) -> FileResult:
    """The diagnostics of one file; imports are followed into `project`.

    Raises:
        SyntaxError, ValueError, RecursionError: the file cannot be parsed.
    """
    if not mentions_torch(file.text) and not uses_project(file, project):
        return FileResult([])
    from samedevice.lint.engine import analyse

    return analyse(file, project if project is not None else Project([file]), selected)


def merge(results: Iterable[Iterable[Diagnostic]]) -> list[Diagnostic]:
    """All diagnostics in order of location; the same mistake found from two files is kept once."""
    best: dict[tuple[object, ...], Diagnostic] = {}
    order = {"certain": 0, "likely": 1, "possible": 2}
    for diagnostics in results:
        for d in diagnostics:
            key = (d.rule, d.location.path, d.location.cell, d.location.line, d.location.column)
            known = best.get(key)
            if known is None or (order[d.confidence], -len(d.evidence), d.message) < (
                order[known.confidence],
                -len(known.evidence),
                known.message,
            ):
                best[key] = d
    return sorted(
        best.values(),
        key=lambda d: (d.location.path, d.location.cell or 0, d.location.line, d.location.column, d.rule),
    )


def lint_files(
    files: Sequence[SourceFile],
    selected: Callable[[str], bool] = everything,
    project: Project | None = None,
) -> list[Diagnostic]:
    """The diagnostics of all `files`, which may import each other.

    Raises:
        SyntaxError, ValueError, RecursionError: a file cannot be parsed.
    """
    project = project if project is not None else Project(files)
    return merge(analyse_file(file, project, selected).diagnostics for file in files)


def module_names(paths: Iterable[str], packages: Callable[[str], bool]) -> Mapping[str, str]:
    """Dotted module name by path: from the outermost folder that is a package (`packages(folder)`)."""
    from pathlib import PurePosixPath

    names: dict[str, str] = {}
    for path in paths:
        pure = PurePosixPath(path.replace("\\", "/"))
        parts = [] if pure.name == "__init__.py" else [pure.name.removesuffix(".py")]
        folder = pure.parent
        while folder.name and packages(str(folder)):
            parts.insert(0, folder.name)
            folder = folder.parent
        names[path] = ".".join(parts)
    return names
