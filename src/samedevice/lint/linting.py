"""One run of the linter: files in, what is to be reported out; cache, processes and suppressions included."""

import gc
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from samedevice.config.settings import Settings
from samedevice.lint.cache import Cache
from samedevice.lint.engine_api import merge
from samedevice.lint.importing import place_of
from samedevice.lint.pool import examine_here, examine_in_pool, process_count
from samedevice.lint.selection import Selection, stranger
from samedevice.lint.workspace import BROKEN, Examined, Workspace
from samedevice.model.diagnostic import Diagnostic
from samedevice.source.decoding import DecodingError, decode
from samedevice.source.suppressions import (
    UNUSED,
    Suppression,
    find_suppressions,
    silence,
    unused_suppressions,
)

#: called with (files done, files in all)
Progress = Callable[[int, int], None]

#: to be sure that no other file brings a suppression to use, so many are looked through at most
LOOKED_THROUGH = 2000


@dataclass(frozen=True, slots=True)
class Findings:
    """What a run found.

    Attributes:
        broken: paths of files that could not be read as Python.
        failures: (path, what went wrong) for files that could not be read, or analysed.
    """

    diagnostics: tuple[Diagnostic, ...]
    suppressed: int
    files: int
    broken: tuple[str, ...]
    failures: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Linter:
    """Lints files again and again under the same settings.

    Attributes:
        selection: which rules are looked for.
        settings: whose `per-path-ignores` and `exclude` hold.
        tops: absolute paths of the folders given, and of the working directory.
        whole: folders all of whose files are linted, so that a suppression unused in them is unused.
        keep_ignores: False to show what suppression comments silence.
        jobs: how many processes at most; None for as many as there are processors.
    """

    selection: Selection
    settings: Settings
    tops: tuple[str, ...]
    whole: tuple[str, ...] = ()
    keep_ignores: bool = True
    jobs: int | None = None
    excluded: Callable[[str], bool] = bool
    progress: Progress | None = None
    cache: Cache = field(default_factory=Cache)

    def lint(self, paths: Sequence[str], overlay: dict[str, bytes] | None = None) -> Findings:
        """Lint the files shown as `paths`; `overlay` stands for what is on disk."""
        workspace = Workspace(self.selection, self.tops, dict(overlay or {}))
        results = self.examine(paths, workspace)
        examined = [results[path] for path in paths if path in results]
        return self.report(examined, workspace)

    def examine(self, paths: Sequence[str], workspace: Workspace) -> dict[str, Examined]:
        """What is found out about each file, from the cache where nothing has changed."""
        results: dict[str, Examined] = {}
        cache = None if workspace.overlay else self.cache
        missing = []
        for path in paths:
            known = cache and cache.get(path, workspace.here, self.tops, workspace.listing)
            if known:
                results[path] = known
            else:
                missing.append(path)
        if not missing:
            return results
        done = len(results)
        for batch in self.examined_batches(missing, workspace, cache):
            for one in batch:
                results[one.path] = one
                if cache is not None:
                    cache.put(one)
            done += len(batch)
            if self.progress is not None:
                self.progress(done, len(paths))
        if cache is not None:
            cache.learn_modules(workspace.resolved())
            cache.save()
        return results

    def examined_batches(
        self, paths: Sequence[str], workspace: Workspace, cache: Cache | None
    ) -> Iterable[list[Examined]]:
        """Results as they come, of this process or of several."""
        processes = process_count(paths, workspace, self.jobs)
        collecting = gc.isenabled()
        gc.disable()
        workspace.collects = True
        try:
            if processes == 1:
                for one in examine_here(workspace, paths):
                    yield [one]
            else:
                for batch, resolved in examine_in_pool(workspace, paths, processes):
                    if cache is not None:
                        cache.learn_modules(resolved)
                    yield batch
        finally:
            workspace.collects = False
            gc.unfreeze()
            if collecting:
                gc.enable()

    def report(self, examined: Sequence[Examined], workspace: Workspace) -> Findings:
        """The diagnostics to show: each mistake once, without what is ignored or suppressed."""
        comments = {one.path: one.comments for one in examined}
        by_file: dict[str, list[Diagnostic]] = {}
        for diagnostic in merge(one.diagnostics for one in examined):
            by_file.setdefault(diagnostic.location.path, []).append(diagnostic)
        shown: list[Diagnostic] = []
        suppressed = 0
        for path in sorted(by_file.keys() | {path for path, found in comments.items() if found}):
            found = by_file.get(path, [])
            if path not in comments:
                if self.excluded(os.path.join(workspace.here, path)):
                    continue  # excluded, and only seen because another file imports it
                comments[path] = comments_on_disk(path, workspace)
            ignored = self.settings.ignored_at(path)
            found = [one for one in found if self.wanted(one, ignored)]
            if self.keep_ignores:
                found, count = silence(found, comments[path])
                suppressed += count
            shown += found
        if self.keep_ignores:
            for one in examined:
                if one.comments and not one.failure and not one.broken and self.selection(UNUSED):
                    shown += self.unused(one, workspace)
        order = sorted(shown, key=place_key)
        return Findings(
            tuple(order),
            suppressed,
            len(examined),
            tuple(one.path for one in examined if one.broken),
            tuple((one.path, one.failure) for one in examined if one.failure is not None),
        )

    def wanted(self, diagnostic: Diagnostic, ignored: frozenset[str]) -> bool:
        """Whether the settings let a diagnostic be shown in its file."""
        if diagnostic.rule == BROKEN:
            return True
        return self.selection(diagnostic.rule) and not self.selection.covers(ignored, diagnostic.rule)

    def unused(self, examined: Examined, workspace: Workspace) -> list[Diagnostic]:
        """Diagnostics for the file's suppressions that silence nothing."""
        ignored = self.settings.ignored_at(examined.path)
        if self.selection.covers(ignored, UNUSED):
            return []
        last_lines = dict(examined.last_lines)
        found = unused_suppressions(
            examined.path,
            examined.comments,
            judged=lambda rule: self.judges(rule) and not self.selection.covers(ignored, rule),
            stranger=stranger,
            all_judged=self.selection.is_default and not ignored,
            last_line=lambda cell: last_lines.get(cell, 0),
        )
        # Only a comment that names this rule silences it: every bare one would silence its own report.
        found, _ = silence(found, [one for one in examined.comments if UNUSED in (one.names or ())])
        if found and self.imported_elsewhere(examined.path, workspace):
            # Another file that is not linted now may be where the comment's problem shows.
            found = [one for one in found if one.fix is None]
        return found

    def judges(self, rule: str) -> bool:
        """Whether `lint` looks for a rule in this run, so that not finding it means something."""
        from samedevice.lint.selection import rule_called

        found = rule_called(rule)
        return found is not None and "lint" in found.engines and self.selection(rule)

    def imported_elsewhere(self, path: str, workspace: Workspace) -> bool:
        """Whether a file beside those of this run seems to import the module at `path`."""
        absolute = os.path.join(workspace.here, path)
        place = place_of(absolute, workspace.listing)
        if any(is_below(place.root, folder) for folder in self.whole):
            return False
        name = place.module_name.rpartition(".")[2]
        importing = re.compile(
            rf"^[ \t]*(?:from|import)\b[^#\n]*\b{re.escape(name)}\b".encode(), re.MULTILINE
        )
        looked = 0
        for folder, folders, files in os.walk(place.root):
            folders[:] = [one for one in folders if not one.startswith(".") and one != "__pycache__"]
            for file in files:
                other = os.path.join(folder, file)
                if not file.endswith((".py", ".ipynb")) or other == absolute:
                    continue
                looked += 1
                if looked > LOOKED_THROUGH:
                    return True
                try:
                    with open(other, "rb") as stream:
                        if importing.search(stream.read()):
                            return True
                except OSError:
                    continue
        return False


def is_below(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies in it."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def comments_on_disk(path: str, workspace: Workspace) -> tuple[Suppression, ...]:
    """The suppression comments of a file that was only read because another imports it."""
    try:
        return tuple(find_suppressions(decode(workspace.read(path)).text))
    except (OSError, DecodingError):
        return ()


def place_key(diagnostic: Diagnostic) -> tuple[str, int, int, int, str]:
    """Diagnostics in order of file, cell, line, column, rule."""
    where = diagnostic.location
    return where.path, where.cell or 0, where.line, where.column, diagnostic.rule
