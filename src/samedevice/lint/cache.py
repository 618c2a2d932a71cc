"""Results kept between runs: valid while the file, all it depends on, the settings and the tool are the same."""

import io
import os
import pickle
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from samedevice._version import __version__
from samedevice.lint.importing import Listing, SearchPath, place_of
from samedevice.lint.workspace import Examined
from samedevice.source.writing import write_atomically

try:
    # hashlib brings OpenSSL along, which takes longer to load than everything here.
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

#: what stands in front of a cache file's digest
MAGIC = b"samedevice lint cache 1\n"
DIGEST_SIZE = 16

#: a file that was changed so recently may change again without a new time stamp
RACY_NANOSECONDS = 2_000_000_000
#: caches of other settings and folders that nobody has used for so long are deleted
UNUSED_SECONDS = 30 * 24 * 3600

#: modules whose classes a cache file may hold
TRUSTED = ("samedevice.model.", "samedevice.source.suppressions", "samedevice.lint.workspace")

#: (mtime, ctime, size) of a file
Stamp = tuple[int, int, int]
#: (root, only package) of a project
Root = tuple[str, str | None]


class Pickler(pickle.Pickler):
    """Writes records of ours for `Unpickler`."""

    def reducer_override(self, value: object) -> Any:
        """An enumeration's member by its value: Python 3.11.0 to 3.11.2 would fetch it with `getattr`."""
        return (type(value), (value.value,)) if isinstance(value, Enum) else NotImplemented


class Unpickler(pickle.Unpickler):
    """Makes records of ours and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        """The class, when it is one of our records."""
        if not module.startswith(TRUSTED) or "." in name:
            raise pickle.UnpicklingError(f"{module}.{name} does not belong in a cache")
        return super().find_class(module, name)


class Kept(NamedTuple):
    """One file's result.

    Attributes:
        key: digest of the file's contents and of those that it depends on.
        reads: the files that it depends on.
        result: None when there is nothing to say: no diagnostics, no comments.
    """

    key: bytes
    reads: tuple[str, ...]
    result: bytes | None


@dataclass(slots=True)
class Cache:
    """The results of earlier runs with the same settings in the same working directory.

    Attributes:
        file: where it is kept; None for a cache that keeps nothing.
        stamps: time stamps and digest of each file's contents when it was last read.
        results: what was found out about each file.
        modules: what the imports of each root were found to be.
    """

    file: str | None = None
    stamps: dict[str, tuple[Stamp | None, bytes]] = field(default_factory=dict)
    results: dict[str, Kept] = field(default_factory=dict)
    modules: dict[Root, dict[str, str | None]] = field(default_factory=dict)
    digests: dict[str, bytes | None] = field(default_factory=dict)
    same_modules: dict[Root, bool] = field(default_factory=dict)
    changed: bool = False

    def get(self, path: str, here: str, tops: Iterable[str], listing: Listing) -> Examined | None:
        """What is known of `path`, None when anything that matters has changed."""
        kept = self.results.get(path)
        if kept is None or self.key(path, kept.reads) != kept.key:
            return None
        place = place_of(os.path.join(here, path), listing)
        if not self.imports_unchanged((place.root, place.only), here, tops, listing):
            return None
        if kept.result is None:
            return Examined(path, reads=kept.reads)
        try:
            return loads(kept.result)
        except Exception:  # a record of another shape: as good as none
            return None

    def put(self, examined: Examined) -> None:
        """Keep a result; one that our own failure spoilt is not kept."""
        key = self.key(examined.path, examined.reads)
        if examined.failure is not None or key is None:
            return
        empty = not (examined.diagnostics or examined.comments or examined.broken)
        self.results[examined.path] = Kept(key, examined.reads, None if empty else dumps(examined))
        self.changed = True

    def learn_modules(self, resolved: Mapping[Root, Mapping[str, str | None]]) -> None:
        """Remember what imports were found to be."""
        for root, names in resolved.items():
            self.modules.setdefault(root, {}).update(names)

    def imports_unchanged(self, root: Root, here: str, tops: Iterable[str], listing: Listing) -> bool:
        """Whether every import of the root's files would still find what it found."""
        known = self.same_modules.get(root)
        if known is None:
            names = self.modules.get(root, {})
            search = SearchPath(*root, tops, listing)
            prefix = here.rstrip(os.sep) + os.sep
            known = all(
                (found and found.removeprefix(prefix)) == path
                for name, path in names.items()
                for found in [search.find(name)]
            )
            self.same_modules[root] = known
            if not known:
                del self.modules[root]
        return known

    def key(self, path: str, reads: Iterable[str]) -> bytes | None:
        """The digest of the file's contents and of those it depends on, None when one is gone."""
        own = self.digest(path)
        if own is None:
            return None
        total = blake2b(own, digest_size=DIGEST_SIZE)
        for other in reads:
            total.update(self.digest(other) or b"gone")
        return total.digest()

    def digest(self, path: str) -> bytes | None:
        """The digest of a file's contents; the file is read only when its time stamps have changed."""
        if path in self.digests:
            return self.digests[path]
        found = self.digests[path] = self.find_digest(path)
        return found

    def find_digest(self, path: str) -> bytes | None:
        """The same, without memory."""
        try:
            status = os.stat(path)
            stamp = (status.st_mtime_ns, status.st_ctime_ns, status.st_size)
            known = self.stamps.get(path)
            if known is not None and known[0] == stamp:
                return known[1]
            with open(path, "rb") as stream:
                content = blake2b(stream.read(), digest_size=DIGEST_SIZE).digest()
        except OSError:
            return None
        fresh = time.time_ns() - max(stamp[0], stamp[1]) < RACY_NANOSECONDS
        self.stamps[path] = (None if fresh else stamp, content)
        self.changed = True
        return content

    def save(self) -> None:
        """Write what is new; a cache that cannot be written is no reason to fail."""
        if self.file is None or not self.changed:
            return
        body = pickle.dumps(
            (
                self.stamps,
                {path: (kept.key, kept.reads, kept.result) for path, kept in self.results.items()},
                self.modules,
            ),
            protocol=5,
        )
        folder = os.path.dirname(self.file)
        try:
            prepare(folder)
            whole = MAGIC + blake2b(body, digest_size=DIGEST_SIZE).digest() + body
            write_atomically(self.file, whole, durable=False)
            sweep(folder)
        except OSError:
            pass


def load_cache(file: str) -> Cache:
    """The cache in `file`; an empty one when it is not there, or is not whole."""
    cache = Cache(file)
    try:
        with open(file, "rb") as stream:
            data = stream.read()
        head, body = data[: len(MAGIC) + DIGEST_SIZE], memoryview(data)[len(MAGIC) + DIGEST_SIZE :]
        if head == MAGIC + blake2b(body, digest_size=DIGEST_SIZE).digest():
            stamps, results, modules = Unpickler(io.BytesIO(body)).load()
            cache.stamps, cache.modules = stamps, modules
            cache.results = {path: Kept(*kept) for path, kept in results.items()}
    except Exception:  # whatever is wrong with it, the files themselves are still there
        return Cache(file)
    return cache


def dumps(examined: Examined) -> bytes:
    """One result as bytes."""
    written = io.BytesIO()
    Pickler(written, protocol=5).dump(examined)
    return written.getvalue()


def loads(data: bytes) -> Examined:
    """The result in `data`."""
    result = Unpickler(io.BytesIO(data)).load()
    if not isinstance(result, Examined):
        raise pickle.UnpicklingError("not a result")
    return result


def cache_file(folder: str, here: str, tops: Iterable[str], selection: object) -> str:
    """The file of the cache that fits these settings, this working directory and this tool."""
    parts = [here, *sorted(tops), repr(selection), __version__, sys.version, fingerprint()]
    name = blake2b("\0".join(parts).encode("utf-8", "surrogateescape"), digest_size=DIGEST_SIZE)
    return os.path.join(folder, f"lint-{name.hexdigest()}.cache")


def fingerprint() -> str:
    """What the tool's own code is, so that a changed rule is not answered from the cache."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    found = blake2b(digest_size=DIGEST_SIZE)
    for part in ("lint", "rules", "source", "torch_facts", "model"):
        try:
            with os.scandir(os.path.join(package, part)) as scan:
                for entry in sorted(scan, key=lambda entry: entry.name):
                    if entry.name.endswith((".py", ".json")):
                        status = entry.stat()
                        found.update(f"{entry.name} {status.st_mtime_ns} {status.st_size}\n".encode())
        except OSError:
            continue
    return found.hexdigest()


def default_folder() -> str:
    """Where caches of the user belong on this system."""
    given = os.environ.get("SAMEDEVICE_CACHE_DIR")
    if given:
        return given
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.expanduser("~\\AppData\\Local")
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(base, "samedevice")


def prepare(folder: str) -> None:
    """Make the cache's folder; one within a project stays out of its repository and of backups."""
    if os.path.isdir(folder):
        return
    os.makedirs(folder, exist_ok=True)
    for name, text in (
        (".gitignore", "*\n"),
        ("CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n# Made by samedevice\n"),
    ):
        with open(os.path.join(folder, name), "w", encoding="ascii") as stream:
            stream.write(text)


def sweep(folder: str) -> None:
    """Delete caches that nobody has used for long."""
    oldest = time.time() - UNUSED_SECONDS
    with os.scandir(folder) as scan:
        for entry in scan:
            if entry.name.startswith("lint-") and entry.stat().st_mtime < oldest:
                os.unlink(entry.path)
