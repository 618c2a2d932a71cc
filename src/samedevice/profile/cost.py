"""What copies and waits cost, estimated from stated assumptions."""

import re
from dataclasses import asdict, dataclass
from typing import Any, Final

from samedevice.model.errors import UserError

#: GB/s of one lane in one direction, after line coding
_LANE: Final = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}

#: what a copy out of pinned memory reaches of the link
_PINNED_SHARE: Final = 0.8
#: pageable memory is first copied by the CPU into a pinned buffer: never faster than this, GB/s
_PAGEABLE_SHARE: Final = 0.4
_PAGEABLE_MOST: Final = 12.0


@dataclass(frozen=True, slots=True)
class CostModel:
    """Rates in bytes a second, costs in seconds.

    Attributes:
        link: how the assumption is named ("PCIe 4.0 x16").
        call: a copy that nobody waits for.
        wait: what the host pays for waiting at all, the work that it waits for not counted.
    """

    link: str = "PCIe 4.0 x16"
    pinned: float = 25.2e9
    pageable: float = 10.1e9
    call: float = 5e-6
    wait: float = 10e-6

    def transfer(self, nbytes: int, *, pinned: bool, blocking: bool) -> float:
        """Seconds of one copy between devices."""
        rate = self.pinned if pinned else self.pageable
        return self.call + nbytes / rate + (self.wait if blocking else 0.0)

    def sync(self) -> float:
        """Seconds of one synchronisation."""
        return self.wait

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"{self.link}: {self.pinned / 1e9:.0f} GB/s from pinned memory, {self.pageable / 1e9:.0f} GB/s from "
            f"pageable, {self.call * 1e6:.0f} µs a call, {self.wait * 1e6:.0f} µs more where the host waits"
        )


def cost_model(
    link: str = "gen4x16", pinned: float | None = None, pageable: float | None = None
) -> CostModel:
    """The model for a link as `gen4x16`; rates in GB/s where they are known better.

    Raises:
        UserError: there is no such link, or a rate is no positive number.
    """
    match = re.fullmatch(r"(?:pcie)?[ -]*(?:gen)?([1-6])(?:\.0)?[ -]*x(1|2|4|8|16)", link.strip().lower())
    if match is None:
        raise UserError(f"`{link}` is not a PCIe link; write gen3x16, gen4x16, gen5x16 or gen4x8")
    lanes = _LANE[int(match[1])] * int(match[2])
    for name, rate in (("pinned", pinned), ("pageable", pageable)):
        if rate is not None and not 0 < rate < 100_000:
            raise UserError(f"the {name} rate has to be a positive number of GB/s, not {rate}")
    return CostModel(
        link=f"PCIe {match[1]}.0 x{match[2]}",
        pinned=(lanes * _PINNED_SHARE if pinned is None else pinned) * 1e9,
        pageable=(min(lanes * _PAGEABLE_SHARE, _PAGEABLE_MOST) if pageable is None else pageable) * 1e9,
    )
