"""Which files are linted: arguments as given, folders recursively, without what nobody means."""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from samedevice.config.patterns import Patterns
from samedevice.model.errors import UserError

SUFFIXES = (".py", ".pyw", ".ipynb")

#: folders that hold no code of the project's own
USUAL = frozenset(
    [
        ".bzr",
        ".direnv",
        ".eggs",
        ".git",
        ".git-rewrite",
        ".hg",
        ".ipynb_checkpoints",
        ".mypy_cache",
        ".nox",
        ".pants.d",
        ".pyenv",
        ".pytest_cache",
        ".pytype",
        ".ruff_cache",
        ".samedevice_cache",
        ".svn",
        ".tox",
        ".venv",
        ".vscode",
        "__pycache__",
        "__pypackages__",
        "_build",
        "buck-out",
        "node_modules",
        "site-packages",
        "dist-packages",
        "venv",
    ]
)
#: folders that hold build results, unless they are packages
BUILDS = frozenset({"build", "dist"})


class IgnoreFile(NamedTuple):
    """One file of patterns: (matches, ignores rather than re-includes, means folders only), in order."""

    folder: str
    patterns: tuple[tuple[Callable[[str], object], bool, bool], ...]

    def verdict(self, path: str, *, is_folder: bool) -> bool | None:
        """Whether the absolute `path` is ignored, None when no pattern says anything."""
        relative = path[len(self.folder) :].lstrip(os.sep).replace(os.sep, "/")
        # Only a pattern for folders may see the slash: `z/**` is all that is in `z`, but not `z` itself.
        as_folder = relative + "/" if is_folder else relative
        for matches, ignores, folders_only in reversed(self.patterns):
            if matches(as_folder if folders_only else relative):
                return ignores
        return None


class Ignores(NamedTuple):
    """The files of patterns that hold in a folder, outermost first."""

    files: tuple[IgnoreFile, ...] = ()

    def below(self, folder: str, names: Iterable[str]) -> "Ignores":
        """The ignores that hold in `folder`, which has entries called `names`."""
        if ".gitignore" not in names:
            return self
        return self.and_file(os.path.join(folder, ".gitignore"), folder)

    def and_file(self, path: str, folder: str) -> "Ignores":
        """These and those of the file at `path`, which hold below `folder`."""
        patterns = read_patterns(path)
        return Ignores((*self.files, IgnoreFile(folder, patterns))) if patterns else self

    def match(self, path: str, *, is_folder: bool) -> bool:
        """Whether the absolute `path` is ignored: the innermost file that says anything decides."""
        for file in reversed(self.files):
            verdict = file.verdict(path, is_folder=is_folder)
            if verdict is not None:
                return verdict
        return False


def read_patterns(path: str) -> tuple[tuple[Callable[[str], object], bool, bool], ...]:
    """The patterns of one ignore file, none when it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            lines = [line for line in stream.read().splitlines() if line.strip() and not line.startswith("#")]
    except OSError:
        return ()
    if not lines:
        return ()
    # 30 ms to import, so only where an ignore file has something to say.
    from pathspec import GitIgnoreSpec

    found = []
    for line in lines:
        try:
            patterns = GitIgnoreSpec.from_lines([line]).patterns
        except ValueError:
            continue  # git passes over a pattern that it cannot read
        for pattern in patterns:
            if pattern.include is not None and pattern.regex is not None:
                found.append((pattern.regex.match, pattern.include, line.rstrip().endswith("/")))
    return tuple(found)


def ignores_above(folder: str) -> Ignores:
    """What holds in `folder` (absolute) from the `.gitignore` files above it, up to the repository's root."""
    chain = [folder]
    while not os.path.lexists(os.path.join(chain[-1], ".git")):
        parent = os.path.dirname(chain[-1])
        if parent == chain[-1]:
            return Ignores()  # no repository: only the files within the folder count
        chain.append(parent)
    root = chain[-1]
    found = Ignores().and_file(os.path.join(root, ".git", "info", "exclude"), root)
    for parent in reversed(chain):
        if parent != root and found.match(parent, is_folder=True):
            return Ignores()  # ignored itself, or in what is ignored, and given all the same: it is meant
        if parent != folder and os.path.isfile(os.path.join(parent, ".gitignore")):
            found = found.below(parent, (".gitignore",))
    return found


@dataclass(slots=True)
class Discovery:
    """Finds the files of the arguments.

    Attributes:
        exclude: patterns of the settings and the command line.
        respect_gitignore: skip what `.gitignore` files name.
        force_exclude: hold the patterns against files given by name as well.
    """

    exclude: tuple[Patterns, ...] = ()
    respect_gitignore: bool = True
    force_exclude: bool = False
    seen: set[str] = field(default_factory=set)
    prefix: str = field(default_factory=lambda: os.getcwd().rstrip(os.sep) + os.sep)

    def find(self, arguments: Iterable[str]) -> Iterator[str]:
        """Paths of the files, as they are shown, in the order of the arguments, folders sorted.

        Raises:
            UserError: an argument does not exist.
        """
        for argument in arguments:
            if os.path.isdir(argument):
                absolute = os.path.abspath(argument)
                ignores = ignores_above(absolute) if self.respect_gitignore else Ignores()
                yield from self.walk(absolute, ignores)
            elif os.path.exists(argument):
                # Given by name: linted whatever it is called and wherever it is.
                absolute = os.path.abspath(argument)
                if not (self.force_exclude and self.excluded(absolute)):
                    yield from self.once(absolute)
            elif os.path.lexists(argument):
                raise UserError(f"{argument} is a symbolic link to a file that does not exist")
            else:
                raise UserError(f"{argument} does not exist")

    def once(self, absolute: str) -> Iterator[str]:
        """`absolute` as it is shown, unless it came before."""
        if absolute not in self.seen:
            self.seen.add(absolute)
            yield absolute.removeprefix(self.prefix)

    def walk(self, folder: str, ignores: Ignores) -> Iterator[str]:
        """The files in `folder` and below."""
        try:
            with os.scandir(folder) as scan:
                entries = sorted(scan, key=lambda entry: entry.name)
        except OSError:
            return  # a folder that may not be read
        if self.respect_gitignore:
            ignores = ignores.below(folder, [entry.name for entry in entries if entry.name == ".gitignore"])
        for entry in entries:
            name, path = entry.name, entry.path
            if name.endswith(SUFFIXES) and entry.is_file():
                if not (self.excluded(path) or ignores.match(path, is_folder=False)):
                    yield from self.once(path)
            elif name not in USUAL and is_real_folder(entry) and not self.skipped(entry, ignores):
                yield from self.walk(path, ignores)

    def skipped(self, entry: os.DirEntry[str], ignores: Ignores) -> bool:
        """Whether a folder is passed over: build results, environments, what is excluded or ignored."""
        path = entry.path
        if entry.name in BUILDS and not os.path.exists(os.path.join(path, "__init__.py")):
            return True
        if os.path.exists(os.path.join(path, "pyvenv.cfg")):
            return True
        return self.excluded(path) or ignores.match(path, is_folder=True)

    def excluded(self, path: str) -> bool:
        """Whether a pattern of the settings or the command line names the absolute `path`."""
        return any(patterns.match(path) for patterns in self.exclude)


def is_real_folder(entry: os.DirEntry[str]) -> bool:
    """A folder that is no symbolic link: those could lead round in circles."""
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def shown(path: str) -> str:
    """`path` relative to the working directory where it is below it, else absolute."""
    absolute = os.path.abspath(path)
    return absolute.removeprefix(os.getcwd().rstrip(os.sep) + os.sep)
