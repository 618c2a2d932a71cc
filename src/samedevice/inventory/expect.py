"""Which tensors are not where they are expected, and by which rule."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from samedevice.inventory.record import Entry, Inventory, Kind, Role, Section


class StrayTensors(RuntimeError):
    """Tensors lie elsewhere than expected; lists each one with its rule.

    Attributes:
        strays: what the text lists.
    """

    def __init__(self, strays: "tuple[Stray, ...]") -> None:
        count = f"{len(strays)} tensors are" if len(strays) != 1 else "1 tensor is"
        lines = [f"  {stray}" for stray in strays[:50]]
        if len(strays) > 50:
            lines.append(f"  … and {len(strays) - 50} more")
        super().__init__("\n".join([f"{count} not where expected:", *lines]))
        self.strays = strays


@dataclass(frozen=True, slots=True)
class Stray:
    """A tensor that is not on the device it should be on."""

    entry: Entry
    wanted: str
    rule: str

    @property
    def why(self) -> str:
        """What kind of place it has, and so why no move reached it."""
        return _why(self.entry)

    def __str__(self) -> str:
        return f"`{self.entry.path}` is on {self.entry.device}, not {self.wanted}: {self.rule} ({self.why})"


def _why(entry: Entry) -> str:
    if not entry.module_registered:
        return "its module is registered nowhere, `.to()` misses it"
    if entry.registered:
        return f"a registered {entry.kind}: its module was not moved"
    reasons = {
        Kind.ATTRIBUTE: "a plain attribute, not a buffer" if entry.registered is False else "an attribute",
        Kind.ITEM: "in a plain container" if entry.registered is False else "in a container",
        Kind.OPTIMIZER_STATE: "its parameter is elsewhere",
        Kind.GRADIENT: "its tensor is elsewhere",
    }
    return reasons.get(entry.kind, f"a {entry.kind}")


def strays(inventory: Inventory, expect: str | Mapping[str, str]) -> Iterator[Stray]:
    """What is not where `expect` says.

    Not held against it: what a loader's dataset has on the CPU, an optimizer's step counters, and
    0-dim CPU tensors (PyTorch takes them beside GPU tensors).
    """
    for section in inventory.sections:
        for entry in section.entries:
            wanted = _wanted(entry, section, expect)
            if wanted is not None and not fits(entry.device, wanted):
                yield Stray(entry, wanted, rule_of(entry, section))


def odd_ones(section: Section) -> dict[str, Stray]:
    """Strays by path when nothing is said about devices, found only where there is no doubt.

    What follows another tensor is not with it; a model whose parameters are all in one place has
    something elsewhere; a model spread over GPUs keeps something on the CPU that no move reaches.
    """
    registered = Counter(
        e.device for e in section.entries if e.kind is Kind.PARAMETER and e.module_registered
    )
    home = registered.most_common(1)[0][0] if registered else None
    spread = len(registered) > 1
    if spread and all(device in ("cpu", "meta") for device in registered):
        home = None
    found = {}
    for entry in section.entries:
        wanted = entry.follows
        if wanted is None and section.role is not Role.LOADER and not _is_free(entry):
            reached = entry.registered and entry.module_registered
            wanted = None if spread and (reached or entry.device != "cpu") else home
        if wanted is not None and not fits(entry.device, wanted) and entry.device != "meta":
            found[entry.path] = Stray(entry, wanted, rule_of(entry, section))
    return found


def _is_free(entry: Entry) -> bool:
    return entry.shape == () and entry.device == "cpu"


def _wanted(entry: Entry, section: Section, expect: str | Mapping[str, str]) -> str | None:
    if section.role is Role.LOADER or _is_free(entry):
        return None
    if entry.kind in (Kind.OPTIMIZER_STATE, Kind.GRADIENT):
        return entry.follows
    if isinstance(expect, str):
        return expect
    fitting = [path for path in expect if _below(entry.path, path)]
    return expect[max(fitting, key=len)] if fitting else None


def _below(path: str, prefix: str) -> bool:
    return not prefix or path == prefix or (path.startswith(prefix) and path[len(prefix)] in ".[(")


def fits(device: str, wanted: str) -> bool:
    """`cuda` takes any GPU; any other name is that device."""
    return device == wanted or (":" not in wanted and device.partition(":")[0] == wanted)


def rule_of(entry: Entry, section: Section) -> str:
    """The rule that this stray breaks."""
    if entry.device == "meta":
        return "meta-left"
    if entry.kind is Kind.GRADIENT:
        return "cpu-gradient"
    if entry.kind is Kind.OPTIMIZER_STATE:
        return "optimizer-state-left-behind"
    if section.role is Role.COPY:
        return "copy-left-behind"
    if section.role is Role.METRIC:
        return "metric-state-not-moved"
    if section.role is Role.LOSS:
        return "loss-weight-not-moved"
    if not entry.module_registered:
        return "module-in-container"
    if entry.registered:
        return "module-not-moved"
    if entry.registered is False:
        return "unregistered-tensor"
    return "batch-not-moved" if section.role is Role.DATA else "factory-without-device"
