"""Composite functions that check devices themselves, judged before they are taken apart."""

from collections.abc import Callable
from typing import Any

from samedevice.virtual.check.calls import Where
from samedevice.virtual.refusal import Refusal

FunctionJudge = Callable[[Any, dict[str, Any], Where], Refusal | None]

_JUDGES: dict[Any, FunctionJudge] = {}
ALWAYS: set[Any] = set()


def judge_of(func: Any) -> FunctionJudge | None:
    return _JUDGES.get(func)
