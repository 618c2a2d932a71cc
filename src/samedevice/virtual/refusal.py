"""What the device rules say of a call that CUDA refuses."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Refusal:
    """CUDA would refuse this call.

    Attributes:
        exception: the exception class that PyTorch raises (RuntimeError, TypeError, …).
        message: its exact text for the torch version at hand.
        family: which rule refused: "exact", "tensor-iterator", "index", "generator", "numpy",
            "gradient", "conv", "rnn", … (the keys of the device rules, lower case with dashes).
        operands: (argument name, tensor, device index) of every tensor of the call, in order.
        common: the device the others are on, as the refusing check sees it.
        blamed: index into `operands` of the one PyTorch's message names, None if it names none.
        recoverable: the call can be carried out when operands are taken to be on `common`.
    """

    exception: type[BaseException]
    message: str
    family: str
    operands: tuple[tuple[str, Any, int], ...] = ()
    common: int = 0
    blamed: int | None = None
    recoverable: bool = True
    extra: dict[str, Any] = field(default_factory=dict)

    def error(self) -> BaseException:
        """The exception as CUDA raises it, marked so that `check` tells it from the program's own."""
        error = self.exception(self.message)
        error.samedevice_refusal = True  # type: ignore[attr-defined]
        error.samedevice_mistake = self.extra.get("mistake")  # type: ignore[attr-defined]
        return error
