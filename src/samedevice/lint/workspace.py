"""The files of one run: read, decoded, parsed once, analysed with the imports of their project at hand."""

import ast
import gc
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from samedevice.lint.engine_api import Project, SourceFile, analyse_file
from samedevice.lint.importing import Listing, Place, SearchPath, place_of
from samedevice.model.diagnostic import Confidence, Diagnostic, Location, Severity
from samedevice.source.decoding import DecodingError, decode
from samedevice.source.suppressions import Suppression, find_suppressions

#: the rule under which a file that cannot be read as Python is reported
BROKEN = "syntax-error"

#: syntax trees of so many characters of source are kept for files that import each other;
#: a character takes about fifty bytes there
KEPT_CHARACTERS = 4_000_000


@dataclass(frozen=True, slots=True)
class Examined:
    """What was found out about one file.

    Attributes:
        diagnostics: those that its analysis gave, before suppressions; some may lie in other files.
        comments: the suppression comments in it.
        last_lines: number of lines by cell (None: the whole file), for edits at the end.
        reads: other files of the project that the result depends on.
        broken: it, or a cell of it, could not be read as Python.
        failure: what went wrong in our own analysis, None when nothing did.
    """

    path: str
    diagnostics: tuple[Diagnostic, ...] = ()
    comments: tuple[Suppression, ...] = ()
    last_lines: tuple[tuple[int | None, int], ...] = ()
    reads: tuple[str, ...] = ()
    broken: bool = False
    failure: str | None = None


def read_file(path: str) -> bytes:
    """The bytes on disk."""
    with open(path, "rb") as stream:
        return stream.read()


@dataclass(slots=True)
class Workspace:
    """Reads and analyses files; remembers what several of them need.

    Attributes:
        selected: whether a rule is looked for.
        tops: folders given as arguments, and the working directory: where the search for imports ends.
        overlay: contents that stand for those on disk (standard input, fixes not yet written), by path.
        collects: the collector of cycles is off, and the workspace calls it. Looking for cycles in
            syntax trees takes longer than parsing; but an analysis leaves some behind, and its file's
            tree with them. So all that is older is put out of the collector's sight first.
    """

    selected: Callable[[str], bool]
    tops: tuple[str, ...] = ()
    overlay: dict[str, bytes] = field(default_factory=dict)
    collects: bool = False
    listing: Listing = field(default_factory=Listing)
    projects: dict[tuple[str, str | None], "RootProject"] = field(default_factory=dict)
    trees: dict[str, tuple[ast.Module, int]] = field(default_factory=dict)
    kept: int = 0
    here: str = field(default_factory=os.getcwd)

    def read(self, path: str) -> bytes:
        """The bytes of the file shown as `path`."""
        data = self.overlay.get(path)
        return read_file(path) if data is None else data

    def examine(self, path: str) -> Examined:
        """Analyse the file shown as `path`.

        Raises:
            OSError: it cannot be read.
        """
        data = self.read(path)
        if path.endswith(".ipynb"):
            return self.examine_notebook(path, data)
        try:
            text = decode(data).text
        except DecodingError as error:
            return broken(path, error.message, error.line)
        try:
            tree = self.parse(path, text)
        except SyntaxError as error:
            return broken_by(path, error)
        comments = tuple(find_suppressions(text))
        place = place_of(os.path.join(self.here, path), self.listing)
        project = self.project(place)
        file = project.entry(path, text, tree, place.module_name)
        diagnostics, reads, failure = self.analyse(file, project)
        last = ((None, text.count("\n") + 1),) if comments else ()
        return Examined(path, diagnostics, comments, last, reads, failure=failure)

    def examine_notebook(self, path: str, data: bytes) -> Examined:
        """The same for a notebook: the cells as one module, places as cell and line."""
        from samedevice.source.notebook import NotebookError, read_notebook

        try:
            notebook = read_notebook(data)
        except NotebookError as error:
            return broken(path, error.message, error.line)
        if notebook is None:
            return Examined(path)
        place = place_of(os.path.join(self.here, path), self.listing)
        project = self.project(place)
        faults = tuple(
            found
            for cell, error in notebook.broken
            for found in broken_by(path, error, cell.number).diagnostics
        )
        try:
            tree = parse(notebook.text)
        except SyntaxError as error:
            return broken_by(path, error)
        file = SourceFile(path, notebook.text, tree)
        diagnostics, reads, failure = self.analyse(file, project)
        comments = tuple(s for cell in notebook.cells for s in find_suppressions(cell.source, cell.number))
        return Examined(
            path,
            (*faults, *(notebook.in_cells(one, path) for one in diagnostics)),
            comments,
            tuple((cell.number, notebook.line_count(cell.number)) for cell in notebook.cells if comments),
            reads,
            broken=bool(faults),
            failure=failure,
        )

    def analyse(
        self, file: SourceFile, project: "RootProject"
    ) -> tuple[tuple[Diagnostic, ...], tuple[str, ...], str | None]:
        """(diagnostics, files read, our own failure); the user's files must never crash the tool."""
        if self.collects:
            gc.freeze()
        try:
            result = analyse_file(file, project, self.selected)
        except Exception as error:  # the outermost edge around the analysis
            if os.environ.get("SAMEDEVICE_TRACEBACK"):
                raise
            told = f"{type(error).__name__}: {error}"
            return (), (), f"samedevice failed here, which is a mistake in samedevice itself ({told})"
        finally:
            if self.collects:
                gc.collect(0)
        reads = tuple(sorted(path for path in result.reads if path != file.path))
        return tuple(result.diagnostics), reads, None

    def parse(self, path: str, text: str) -> ast.Module:
        """The syntax tree of `text`, kept for those that import it.

        Raises:
            SyntaxError: it is no Python.
        """
        if path in self.trees:
            return self.trees[path][0]
        if self.kept > KEPT_CHARACTERS:
            self.forget()
        tree = parse(text)
        self.trees[path] = (tree, len(text))
        self.kept += len(text)
        return tree

    def forget(self) -> None:
        """Let go of the older half of the syntax trees; one that is needed again is parsed again."""
        for path in list(self.trees):
            if self.kept <= KEPT_CHARACTERS // 2:
                break
            self.kept -= self.trees.pop(path)[1]
        for project in self.projects.values():
            for path, file in project.by_path.items():
                if path not in self.trees:
                    file.tree = None

    def project(self, place: Place) -> "RootProject":
        """The files that share a root with one at `place`."""
        key = (place.root, place.only)
        if key not in self.projects:
            self.projects[key] = RootProject(
                self, SearchPath(place.root, place.only, self.tops, self.listing)
            )
        return self.projects[key]

    def resolved(self) -> dict[tuple[str, str | None], dict[str, str | None]]:
        """What the imports of each root were found to be."""
        return {key: project.resolved for key, project in self.projects.items()}

    def recipe(self) -> Callable[[], "Workspace"]:
        """What makes an equal workspace in another process."""
        return partial(Workspace, self.selected, self.tops, self.overlay, self.collects, here=self.here)


class RootProject(Project):
    """A project whose imports are looked up in the file system from one root."""

    def __init__(self, workspace: Workspace, search: SearchPath) -> None:
        super().__init__(load=self.load_module)
        self.workspace = workspace
        self.search = search
        self.by_path: dict[str, SourceFile] = {}
        #: what each name that was asked for is: the path of a file, or None
        self.resolved: dict[str, str | None] = {}

    def entry(self, path: str, text: str, tree: ast.Module, module_name: str) -> SourceFile:
        """The file to analyse, importable by the others."""
        file = self.by_path.get(path)
        if file is None:
            file = self.by_path[path] = SourceFile(path, text, tree, module_name)
            self.add(file)
        file.tree = tree
        return file

    def load_module(self, name: str) -> SourceFile | None:
        """The file that `import name` runs, if it is one of the project that can be read and parsed."""
        absolute = self.search.find(name)
        path = None if absolute is None else self.shown(absolute)
        self.resolved[name] = path
        if path is None:
            return None
        file = self.by_path.get(path)
        if file is None:
            try:
                text = decode(self.workspace.read(path)).text
                tree = self.workspace.parse(path, text)
            except (OSError, DecodingError, SyntaxError):
                return None
            file = self.by_path[path] = SourceFile(path, text, tree, name)
        return file

    def shown(self, absolute: str) -> str:
        """The path as it is shown: relative below the working directory."""
        prefix = self.workspace.here.rstrip(os.sep) + os.sep
        return absolute.removeprefix(prefix)


def parse(text: str) -> ast.Module:
    """The syntax tree.

    Raises:
        SyntaxError: whatever is wrong with the text.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError:
        raise
    except (RecursionError, MemoryError):
        raise SyntaxError("the code is nested too deeply to be parsed", ("", 1, 1, "")) from None
    except ValueError as error:
        raise SyntaxError(str(error), ("", 1, 1, "")) from None


def broken_by(path: str, error: SyntaxError, cell: int | None = None) -> Examined:
    """The file `path` with a syntax error in it."""
    return broken(path, error.msg or "invalid syntax", error.lineno or 1, error.offset or 1, cell)


def broken(path: str, message: str, line: int = 1, column: int = 1, cell: int | None = None) -> Examined:
    """The file `path`, which cannot be read as Python, with the diagnostic that says so."""
    diagnostic = Diagnostic(
        rule=BROKEN,
        severity=Severity.ERROR,
        confidence=Confidence.CERTAIN,
        message=f"this cannot be read as Python {sys.version_info[0]}.{sys.version_info[1]}: {message}",
        location=Location(path, max(line, 1), max(column, 1), cell=cell),
    )
    return Examined(path, (diagnostic,), broken=True)
