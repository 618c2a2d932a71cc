"""Threads that a program starts: torch's modes are thread-local, so each enters them itself."""

import threading
from typing import Any

from samedevice.virtual.patches import Patches
from samedevice.virtual.surface import autocast


def install(patches: Patches, activation: Any) -> None:
    """Make every thread started from now on enter the modes before it runs."""
    real_bootstrap: Any = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    def bootstrap_inner(self: Any) -> None:
        # `_bootstrap_inner` registers the thread first; entering belongs after that, around `run`,
        # which subclasses override: so it hangs on the instance.
        run = self.run
        own = self.__dict__.get("run")

        def run_with_modes() -> None:
            if own is None:
                self.__dict__.pop("run", None)
            else:
                self.run = own
            activation.enter_thread()
            autocast.include(activation.engine.active)
            try:
                run()
            finally:
                activation.leave_thread()

        self.run = run_with_modes
        real_bootstrap(self)

    patches.set(threading.Thread, "_bootstrap_inner", bootstrap_inner)
