"""Which file an `import` runs: looked up in the file system, within the project only."""

import os
from collections.abc import Iterable
from typing import NamedTuple

#: what marks the root of a project
MARKS = frozenset(
    {".git", ".hg", "pyproject.toml", "setup.py", "setup.cfg", "samedevice.toml", ".samedevice.toml"}
)
#: folders of installed packages: what lies beside a package there is not part of its project
INSTALLED = frozenset({"site-packages", "dist-packages"})

#: never followed into sources: what torch does is known as data
KNOWN_AS_DATA = frozenset({"torch", "numpy"})


class Listing:
    """What is in which folder, each read once."""

    def __init__(self) -> None:
        self.folders: dict[str, frozenset[str]] = {}

    def names(self, folder: str) -> frozenset[str]:
        """Names of the entries of `folder`, none when it cannot be read."""
        found = self.folders.get(folder)
        if found is None:
            try:
                found = frozenset(os.listdir(folder))
            except OSError:
                found = frozenset()
            self.folders[folder] = found
        return found


class SearchPath:
    """Where the imports of files with one root are looked for.

    Attributes:
        root: the folder whose entries the files' absolute imports name: the parent of the
            outermost package.
        folders: all folders that are searched, `root` first.
        only: the one package that is found; everything when None.
    """

    __slots__ = ("folders", "listing", "only", "root")

    def __init__(self, root: str, only: str | None, tops: Iterable[str], listing: Listing) -> None:
        self.root = root
        self.listing = listing
        self.only = only
        self.folders = [root] if only is not None else self.above(root, tops)

    def above(self, root: str, tops: Iterable[str]) -> list[str]:
        """`root` and the folders above it up to the top of the project, with their `src` folders."""
        chain, last = [root], 0
        tops = set(tops)
        while True:
            here = chain[-1]
            if here in tops:
                last = len(chain)
            if not MARKS.isdisjoint(self.listing.names(here)):
                last = max(last, len(chain))
                break
            parent = os.path.dirname(here)
            if parent == here or os.path.basename(parent) in INSTALLED or len(chain) > 12:
                break
            chain.append(parent)
        chain = chain[: max(last, 1)]
        sources = [
            os.path.join(folder, "src")
            for folder in chain
            if "src" in self.listing.names(folder) and os.path.join(folder, "src") not in chain
        ]
        return chain + sources

    def find(self, name: str) -> str | None:
        """The file that `import name` runs, None when it is not one of the project."""
        parts = name.split(".")
        if not all(parts) or parts[0] in KNOWN_AS_DATA or self.only not in (None, parts[0]):
            return None
        for folder in self.folders:
            found = self.find_in(folder, parts)
            if found is not None:
                return found
        return None

    def find_in(self, folder: str, parts: list[str]) -> str | None:
        """The same in one folder."""
        for part in parts[:-1]:
            if part not in self.listing.names(folder):
                return None
            folder = os.path.join(folder, part)
        last = parts[-1]
        names = self.listing.names(folder)
        if last in names:
            package = os.path.join(folder, last)
            if "__init__.py" in self.listing.names(package):
                return os.path.join(package, "__init__.py")
        return os.path.join(folder, last + ".py") if last + ".py" in names else None


class Place(NamedTuple):
    """Where a file stands among the modules.

    Attributes:
        root: the folder in which its absolute imports are looked for first.
        only: its package, when it is an installed one: its neighbours are no part of its project.
        module_name: the dotted name that other files of the root import it by.
    """

    root: str
    only: str | None
    module_name: str


def place_of(path: str, listing: Listing) -> Place:
    """The place of the file at the absolute `path`."""
    folder, name = os.path.split(path)
    stem = name.rpartition(".")[0] or name
    parts = [] if name == "__init__.py" else [stem]
    while "__init__.py" in listing.names(folder):
        parent, package = os.path.split(folder)
        if parent == folder:
            break
        parts.insert(0, package)
        folder = parent
    only = parts[0] if parts and os.path.basename(folder) in INSTALLED else None
    return Place(folder, only, ".".join(parts))
