"""What crosses the bus at one place of a program: the facts that rules of cost read."""

from dataclasses import dataclass, field

from samedevice.model.diagnostic import Location


@dataclass(frozen=True, slots=True)
class Source:
    """Where the bytes of a transfer come from.

    Attributes:
        action: how they came to be ("created", "from-numpy", "batched", "loaded", "moved", …).
        function: what made them ("torch.zeros").
        location: the line that made them.
        fresh: made in the same step in which they were moved.
        left: where they left the GPU in the same step, for a round trip.
    """

    action: str
    function: str
    location: Location | None = None
    fresh: bool = False
    left: Location | None = None


@dataclass(frozen=True, slots=True)
class Traffic:
    """Everything alike that one place of the program moved, or waited for.

    Attributes:
        kind: "transfer" or "sync".
        what: "h2d", "d2h", "d2d"; for a sync the reason ("item", "bool", "print", "nonzero", …).
        location: the user's expression that does it.
        expression, statement: its source text and that of the statement around it.
        function: what was called ("Tensor.to").
        package: the installed package in which it happens, None when the user's own line does it.
        direct: the user's own line asks for it, not torch or a package further down.
        count, nbytes, seconds: in the whole run; seconds are the cost model's.
        measured: seconds on the real device, None on virtual GPUs.
        steps: iterations of the loop around it, 0 outside of step loops.
        hits: in how many of them it happened.
        loop: where that loop starts.
        training: the loop steps an optimizer.
        pageable, non_blocking: how the copies were made.
        unchanged: how many of the copies moved the very bytes that the step before had moved.
        of_module: the copies belong to a module that moves (`model.to`).
        loader: where the DataLoader was made that gave the bytes; it does not pin its memory.
        text: the whole source text of the file.
        callers: the user's calls that lead there, from the nearest outwards.
    """

    kind: str
    what: str
    location: Location
    expression: str = ""
    statement: str = ""
    function: str = ""
    package: str | None = None
    direct: bool = True
    count: int = 0
    nbytes: int = 0
    seconds: float = 0.0
    measured: float | None = None
    steps: int = 0
    hits: int = 0
    loop: Location | None = None
    training: bool = False
    pageable: bool = False
    non_blocking: bool = False
    unchanged: int = 0
    of_module: bool = False
    dtype: str = ""
    shape: tuple[int, ...] = ()
    source: Source | None = None
    loader: Location | None = None
    callers: tuple[Location, ...] = ()
    loader_text: str = field(default="", repr=False, compare=False)
    text: str = field(default="", repr=False, compare=False)

    @property
    def in_step(self) -> bool:
        """It happens in most steps of a loop, and was seen often enough to say so."""
        return self.steps >= 3 and self.hits >= 3 and self.hits * 2 >= self.steps

    @property
    def per_step(self) -> float:
        """How often in a step."""
        return self.count / self.steps if self.steps else 0.0

    @property
    def bytes_per_step(self) -> float:
        """How many bytes in a step."""
        return self.nbytes / self.steps if self.steps else 0.0

    @property
    def seconds_per_step(self) -> float:
        """Estimated time in a step."""
        return self.seconds / self.steps if self.steps else 0.0
