"""What an exception was raised from, and what it holds."""

from collections.abc import Callable, Iterable, Iterator


def members(error: BaseException) -> Iterable[BaseException]:
    """The exceptions of a group; none for any other."""
    return error.exceptions if isinstance(error, BaseExceptionGroup) else ()


def chain(
    error: BaseException,
    held: Callable[[BaseException], Iterable[BaseException]] = members,
    passed_over: Callable[[BaseException], bool] | None = None,
) -> Iterator[BaseException]:
    """The exception and those that a traceback shows with it, the nearest first, each once.

    Args:
        held: the exceptions inside one.
        passed_over: whether to leave one out, with all that only it leads to.
    """
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        current = pending.pop(0)
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        if passed_over is not None and passed_over(current):
            continue
        yield current
        pending += held(current)
        pending += [current.__cause__, None if current.__suppress_context__ else current.__context__]
