"""Works: what a collective returns, made of those that gloo returns."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

_of_future: Final = c10d._create_work_from_future  # type: ignore[attr-defined]


def each(works: list[Any]) -> Any:
    """One work for several, as C++ wants it."""
    if len(works) == 1:
        return works[0]
    return _of_future(torch.futures.collect_all([_future(work) for work in works]))


def _future(work: Any) -> Any:
    """The work's future; gloo has none for a reduce-scatter, which is waited for instead."""
    try:
        return work.get_future()
    except RuntimeError:
        work.wait()
        done: Any = torch.futures.Future()
        done.set_result(None)
        return done


def after(work: Any, finish: Callable[[], Any], results: Sequence[torch.Tensor]) -> Any:
    """A work that is complete when `finish` has run on the results of another."""

    def run(future: Any) -> list[torch.Tensor]:
        future.value()
        with torch.no_grad():
            finish()
        return list(results)

    return _of_future(_future(work).then(run))


def together(works: list[Any]) -> Any:
    """One work for several."""
    if len(works) == 1:
        return works[0]
    return Together(works)


class Together(dist.Work):
    """Waits for several works."""

    def __init__(self, works: list[Any]) -> None:
        super().__init__()
        self.works = works

    def wait(self, timeout: Any = timedelta(0)) -> bool:
        """Wait for each in turn."""
        for work in self.works:
            if timeout:
                work.wait(timeout)
            else:
                work.wait()
        return True

    def is_completed(self) -> bool:
        """All are done."""
        return all(work.is_completed() for work in self.works)

    def synchronize(self) -> None:
        """Wait, as a stream would."""
        self.wait()

    def result(self) -> list[torch.Tensor]:
        """The results of all."""
        return [tensor for work in self.works for tensor in work.result()]

    def get_future(self) -> Any:
        """A future of all."""
        return torch.futures.collect_all([work.get_future() for work in self.works])
