"""Files examined in several processes; the results are those of one process."""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from samedevice.lint.workspace import Examined, Workspace

#: below this many bytes of source another process costs more than it saves
WORTH_A_PROCESS = 600_000

#: what the imports of each root were found to be
Resolved = dict[tuple[str, str | None], dict[str, str | None]]

_workspace: Workspace | None = None


def examine_here(workspace: Workspace, paths: Sequence[str]) -> Iterator[Examined]:
    """Examine `paths` in this process."""
    for path in paths:
        yield examine_one(workspace, path)


def examine_one(workspace: Workspace, path: str) -> Examined:
    """Examine a file; one that cannot be read gives a failure."""
    try:
        return workspace.examine(path)
    except OSError as error:
        return Examined(path, failure=f"cannot be read: {error.strerror or error}")


def process_count(paths: Sequence[str], workspace: Workspace, jobs: int | None) -> int:
    """How many processes are worth it for `paths`, unless the user says how many: `jobs`."""
    if jobs is not None:
        return max(1, min(jobs, len(paths)))
    available = usable_processors()
    if available < 2 or len(paths) < 2:
        return 1
    size = 0
    for path in paths:
        data = workspace.overlay.get(path)
        try:
            size += len(data) if data is not None else os.stat(path).st_size
        except OSError:
            continue
    return max(1, min(available, len(paths), size // WORTH_A_PROCESS))


def usable_processors() -> int:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def examine_in_pool(
    workspace: Workspace, paths: Sequence[str], processes: int
) -> Iterator[tuple[list[Examined], Resolved]]:
    """Examine `paths` in `processes` processes; gives the results chunk by chunk, in no certain order."""
    from concurrent.futures import as_completed
    from concurrent.futures.process import BrokenProcessPool

    survivors: list[str] = []
    with executor(workspace, processes) as pool:
        futures = {pool.submit(examine_chunk, chunk): chunk for chunk in chunks(paths, processes)}
        try:
            for future in as_completed(futures):
                try:
                    yield future.result()
                except BrokenProcessPool:
                    survivors += futures[future]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    # A file brought the interpreter down and the rest of the pool with it: which one is it?
    for path in survivors:
        with executor(workspace, 1) as alone:
            try:
                yield alone.submit(examine_chunk, [path]).result()
            except BrokenProcessPool:
                yield [Examined(path, failure="the analysis brought the interpreter down")], {}


def executor(workspace: Workspace, processes: int) -> Any:
    """A pool whose processes know the workspace."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    # Forked processes start at once and have everything imported; elsewhere the system's own way.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else None)
    return ProcessPoolExecutor(
        processes, mp_context=context, initializer=start_worker, initargs=(workspace.recipe(),)
    )


def start_worker(recipe: Callable[[], Workspace]) -> None:
    """Called once in each process of the pool."""
    global _workspace
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends the pool
    _workspace = recipe()


def examine_chunk(paths: Sequence[str]) -> tuple[list[Examined], Resolved]:
    """Examine some files in a process of the pool."""
    assert _workspace is not None
    results = list(examine_here(_workspace, paths))
    return results, _workspace.resolved()


def chunks(paths: Sequence[str], processes: int) -> list[list[str]]:
    """`paths` in pieces small enough to keep all processes busy, large enough to share their imports."""
    size = max(1, min(64, len(paths) // (processes * 4)))
    return [list(paths[at : at + size]) for at in range(0, len(paths), size)]
