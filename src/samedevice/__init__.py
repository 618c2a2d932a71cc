"""The device sanitizer for PyTorch.

Public names are imported on first use (PEP 562), so `import samedevice` costs nothing and
never imports torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from samedevice._version import __version__ as __version__

if TYPE_CHECKING:
    from samedevice.crash import explained as explained
    from samedevice.crash import install as install
    from samedevice.inventory import audit as audit
    from samedevice.runtime import Prefetcher as Prefetcher
    from samedevice.runtime import to_device as to_device
    from samedevice.virtual import virtual_gpus as virtual_gpus

#: public name -> module that defines it
_WHERE = {
    "Prefetcher": "samedevice.runtime",
    "audit": "samedevice.inventory",
    "explained": "samedevice.crash",
    "install": "samedevice.crash",
    "load_ipython_extension": "samedevice.notebook",
    "to_device": "samedevice.runtime",
    "unload_ipython_extension": "samedevice.notebook",
    "virtual_gpus": "samedevice.virtual",
}

__all__ = ["Prefetcher", "__version__", "audit", "explained", "install", "to_device", "virtual_gpus"]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'samedevice' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
