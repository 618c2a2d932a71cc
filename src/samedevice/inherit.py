"""Virtual GPUs for child processes: a child has its parent's as soon as it imports torch.

`samedevice-env.pth`, which is installed beside the package, calls `arm` in each interpreter that has the
variable; what `multiprocessing` starts calls it too. A process that never imports torch pays nothing.
"""

import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

#: as in `samedevice.processes.settings`, which is not imported before it is needed
VARIABLE = "SAMEDEVICE_INHERIT"

#: as in `samedevice.program.overlay`
OVERLAY = "SAMEDEVICE_OVERLAY"

_finder: "Finder | None" = None
_entered = False


def arm() -> None:
    """Enter the virtual GPUs that the environment tells of, at once if torch is there, else with it.

    Sources that are tried without being written are read from here on.
    """
    global _finder
    if os.environ.get(OVERLAY):
        from samedevice.program.overlay import install

        install()
    if _finder is not None or _entered or not os.environ.get(VARIABLE):
        return
    if "torch" in sys.modules:
        enter()
        return
    _finder = Finder("torch", lambda module: enter())
    sys.meta_path.insert(0, _finder)


def disarm() -> None:
    """This process decides for itself whether it has virtual GPUs."""
    global _finder
    if _finder is not None:
        if _finder in sys.meta_path:
            sys.meta_path.remove(_finder)
        _finder = None


def enter() -> None:
    """Enter now; a fault of ours is one line and never the program's."""
    global _entered
    disarm()
    if _entered:
        return
    _entered = True
    try:
        from samedevice.processes.settings import Settings
        from samedevice.program import files

        settings = Settings.read(os.environ.get(VARIABLE, ""))
        if settings is None:
            return
        if settings.start is not None:
            files.START = settings.start  # type: ignore[misc]
        from samedevice.virtual.children import enter_inherited

        enter_inherited(settings)
    except Exception as fault:
        if os.environ.get("SAMEDEVICE_DEBUG"):
            raise
        print(
            f"samedevice: process {os.getpid()} has no virtual GPUs ({type(fault).__name__}: {fault})",
            file=sys.stderr,
        )


class Finder(importlib.abc.MetaPathFinder):
    """Finds one module as the other finders do, and does something when it has been imported."""

    def __init__(self, name: str, then: Callable[[ModuleType], None]) -> None:
        self.name = name
        self.then = then
        self.looking = False

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self.name or self.looking:
            return None
        self.looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.looking = False
        if spec is not None and spec.loader is not None:
            spec.loader = Loader(spec.loader, self.then)  # type: ignore[assignment]
        return spec


class Loader:
    """Runs a module with its own loader, then does what there is to do."""

    def __init__(self, real: Any, then: Callable[[ModuleType], None]) -> None:
        self.real = real
        self.then = then

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def create_module(self, spec: ModuleSpec) -> Any:
        return self.real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self.real
        module.__loader__ = self.real
        self.real.exec_module(module)
        self.then(module)
