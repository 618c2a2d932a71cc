"""From what was found to diagnostics: the rules say what it is."""

from collections.abc import Callable

from samedevice.lint.run import Run
from samedevice.model.diagnostic import Diagnostic


def diagnostics(run: Run, selected: Callable[[str], bool]) -> list[Diagnostic]:
    return []
