"""Devices as the analysis knows them: concrete ones, and symbols for what only the caller decides."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dev:
    """A device.

    Attributes:
        type: "cpu", "cuda", "meta", … ; "?" for a symbol; "replica" for the copies of DataParallel.
        index: the GPU's number, None for the current one.
        symbol: what identifies a symbolic device; equal symbols are the same device.
        name: how messages call it.
        aware: the program names this device itself (`device=…`, `.to(device)`), so that it is
            meant to differ from the CPU on the machine that matters.
    """

    type: str
    index: int | None = None
    symbol: object = None
    name: str = ""
    aware: bool = True

    def __str__(self) -> str:
        if self.type == "?":
            return self.name or "another device"
        if self.type == "replica":
            return "each replica's own GPU"
        return self.type if self.index is None else f"{self.type}:{self.index}"

    @property
    def is_cpu(self) -> bool:
        return self.type == "cpu"

    @property
    def is_symbol(self) -> bool:
        return self.type == "?"

    @property
    def is_gpu(self) -> bool:
        """Certainly an accelerator of the machine that matters."""
        return self.type in ("cuda", "xpu", "mps", "replica")


CPU = Dev("cpu")
CUDA = Dev("cuda")
META = Dev("meta")
REPLICA = Dev("replica")


def parse_device(text: str) -> Dev | None:
    """The device that a string names, None when it names none."""
    kind, colon, number = text.partition(":")
    if kind not in ("cpu", "cuda", "mps", "xpu", "meta", "hpu", "xla", "npu", "mtia"):
        return None
    if not colon:
        return Dev(kind)
    return Dev(kind, None if kind == "cpu" else int(number)) if number.isdigit() else None


def symbol(key: object, name: str, aware: bool = True) -> Dev:
    """The device identified by `key`, shown as `name`."""
    return Dev("?", None, key, name, aware)


def same(a: Dev, b: Dev) -> bool:
    """Certainly the same device."""
    if a.type != b.type:
        return False
    if a.is_symbol:
        return a.symbol is b.symbol or a.symbol == b.symbol
    return (a.index or 0) == (b.index or 0)


def differ(a: Dev | None, b: Dev | None) -> bool:
    """Certainly different devices, on a machine where symbols stand for an accelerator."""
    if a is None or b is None or "meta" in (a.type, b.type):
        return False
    if a.is_symbol or b.is_symbol:
        other = b if a.is_symbol else a
        known = a if a.is_symbol else b
        return other.is_cpu and known.aware
    return not same(a, b)
