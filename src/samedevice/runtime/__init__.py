"""What a program may keep using in production: `to_device` and `Prefetcher`; imports torch."""

from samedevice.runtime.move import CannotMove, to_device
from samedevice.runtime.prefetch import Prefetcher

__all__ = ["CannotMove", "Prefetcher", "to_device"]
