"""What a run records: how each tensor came to be where it is, and what moved when.

Kept cheap: one `Birth` for a storage that is born, nothing for views and in-place operations. A
derived tensor points at the *roots* of its operands (the births that were not themselves derived
on the same device), so that chains do not grow with the length of a training run.
"""

import itertools
import weakref
from dataclasses import dataclass, field
from typing import Any, Final

from samedevice.model.scene import Action
from samedevice.virtual.places import NOWHERE, Place, Trail, trail

_clock = itertools.count(1)


def moment() -> int:
    """The present, on the clock of births and events."""
    return next(_clock)


#: how many roots of a derived tensor are remembered
MOST_ROOTS: Final = 3
#: lines that moved tensors, beyond which those of dead tensors are forgotten
MOST_LINES: Final = 500
#: how many moves back a history reaches
MOST_MOVES: Final = 6


class Birth:
    """How the data of a storage came to be.

    Attributes:
        device: CPU, META, UNSETTLED or the index of a virtual GPU (see `samedevice.virtual.tags`).
        action: created, derived, from-numpy, loaded, batched, moved, copied …
        made_by: what made it: a name, or the function, whose name is worked out when somebody asks.
        place: the line of the program.
        parents: for a derived tensor the roots of its operands on the same device; for a move the
            birth of the source; empty for a creation.
        explicit_device: the call named a device itself; None when it is not a factory.
        seq: global order number of the event.
        moves: length of the chain of moves behind it.
    """

    __slots__ = (
        "__weakref__",
        "action",
        "device",
        "explicit_device",
        "made_by",
        "moves",
        "parents",
        "place",
        "seq",
    )

    def __init__(
        self,
        device: int,
        action: Action,
        made_by: Any,
        place: Place = NOWHERE,
        parents: "tuple[Birth, ...]" = (),
        explicit_device: bool | None = None,
    ) -> None:
        self.device = device
        self.action = action
        self.made_by = made_by
        self.place = place
        self.parents = parents
        self.explicit_device = explicit_device
        self.seq = next(_clock)
        self.moves = 0
        if action is Action.MOVED and parents:
            self.moves = parents[0].moves + 1
            if self.moves > MOST_MOVES:
                # A tensor that commutes between devices in a loop must not keep every step alive.
                self.parents = ()
                self.moves = 0

    @property
    def function(self) -> str:
        """What made it, as the user writes it: "torch.arange", "Tensor.to", "aten.cat"."""
        made_by = self.made_by
        return made_by if isinstance(made_by, str) else name_of(made_by)

    @property
    def roots(self) -> "tuple[Birth, ...]":
        """The births that this one derives from on its own device; itself when it is one."""
        return self.parents if self.action is Action.DERIVED and self.parents else (self,)

    def history(self) -> "list[Birth]":
        """From the first known birth to this one, following moves and derivations by first parents."""
        chain = [self]
        while chain[-1].parents and len(chain) < 32:
            chain.append(chain[-1].parents[0])
        return chain[::-1]

    def __repr__(self) -> str:
        return f"Birth({self.action} by {self.function} on {self.device} at {self.place})"


def name_of(function: Any) -> str:
    """As the user writes it where possible: "torch.cat", "Tensor.mean", else "aten.cat"."""
    name = getattr(function, "__name__", None)
    if name is None or hasattr(function, "_schema"):
        return str(function).rpartition(".")[0] or str(function)
    return f"Tensor.{name}" if getattr(function, "__objclass__", None) is not None else f"torch.{name}"


def roots_of(births: "list[Birth]") -> "tuple[Birth, ...]":
    """The distinct roots of several births, the first few; what was first seen when used tells nothing."""
    if len(births) == 1:
        only = births[0]
        if only.action is Action.RECEIVED and only.place is NOWHERE:
            return ()
        return only.parents if only.action is Action.DERIVED and only.parents else (only,)
    found: dict[Birth, None] = {}
    for birth in births:
        if birth.action is Action.RECEIVED and birth.place is NOWHERE:
            continue
        for root in birth.roots:
            found[root] = None
            if len(found) == MOST_ROOTS:
                return tuple(found)
    return tuple(found)


@dataclass(slots=True)
class ModuleMoved:
    """`Module.to`, `cuda` or `cpu` ran on a module.

    `inside`: the modules that it contained then, itself included.
    """

    module: "weakref.ref[Any]"
    class_name: str
    device: int
    function: str
    place: Place
    inside: "tuple[weakref.ref[Any], ...]" = ()
    seq: int = field(default_factory=lambda: next(_clock))
    #: the whole stack of user code, so that two events can be put in order in the function they share
    trail: Trail = field(default_factory=lambda: trail(2))


@dataclass(slots=True)
class TensorMoved:
    """A tensor was copied to another device.

    `result` is a weak reference to the new storage: once it is dead without having been an operand
    of anything, the moved copy was thrown away.
    """

    source: Birth | None
    result: "weakref.ref[Any]"
    birth: Birth
    function: str
    place: Place
    seq: int = field(default_factory=lambda: next(_clock))


@dataclass(slots=True)
class ModuleMade:
    """An `nn.Module` was constructed."""

    module: "weakref.ref[Any]"
    class_name: str
    place: Place
    seq: int = field(default_factory=lambda: next(_clock))
    #: the whole stack of user code, so that two events can be put in order in the function they share
    trail: Trail = field(default_factory=lambda: trail(2))


@dataclass(slots=True)
class Happened:
    """Anything else worth a step of the story: an optimizer was made, a state dict was loaded …

    Attributes:
        what: "optimizer-created", "optimizer-step", "load-state-dict", "torch-load", "deepcopy",
            "data-parallel", "default-device", "traced".
        subject: weak reference to the object concerned, None if it cannot be referenced.
        detail: facts by name.
    """

    what: str
    place: Place
    subject: "weakref.ref[Any] | None" = None
    detail: dict[str, Any] = field(default_factory=dict)
    seq: int = field(default_factory=lambda: next(_clock))
    #: the whole stack of user code, so that two events can be put in order in the function they share
    trail: Trail = field(default_factory=lambda: trail(2))


def reference(thing: Any) -> "weakref.ref[Any] | None":
    """A weak reference, None for objects that allow none."""
    try:
        return weakref.ref(thing)
    except TypeError:
        return None


class ByIdentity:
    """What is known of living objects, found by identity.

    A program's module may compute its hash from state that is not there yet, or that changes.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], Any]] = {}

    def __setitem__(self, key: Any, value: Any) -> None:
        number = id(key)
        self._known[number] = (weakref.ref(key, lambda _: self._known.pop(number, None)), value)

    def get(self, key: Any) -> Any:
        """What is known of `key`, None if nothing."""
        reference, value = self._known.get(id(key), (None, None))
        return value if reference is not None and reference() is key else None

    def __len__(self) -> int:
        return len(self._known)


def _lives(reference: "weakref.ref[Any] | None") -> bool:
    """Whether an event's object is there; an event without one is kept."""
    return reference is None or reference() is not None


class Session:
    """Everything that one run under virtual GPUs recorded.

    Attributes:
        events: module moves, module births and other events in order of time.
        tensor_moves: the last moves of tensors, newest last, a bounded number of each place.
        notes: what the reader should know about the run as a whole.
        batches: DataLoader batches handed out so far.
    """

    def __init__(self) -> None:
        self.events: list[ModuleMoved | Happened] = []
        self.made = ByIdentity()
        self.tensor_moves: dict[tuple[Any, int], list[TensorMoved]] = {}
        self.notes: dict[str, None] = {}
        self.batches = 0

    def note(self, text: str) -> None:
        """Say something about the run, once."""
        self.notes[text] = None

    def record(self, event: "ModuleMoved | Happened") -> None:
        """Keep an event; a long run repeats itself, so each place keeps its first and last few."""
        if len(self.events) < 20_000:
            self.events.append(event)

    def forget_the_dead(self) -> None:
        """Drop what happened to objects that are gone, so that many programs can share one session."""
        self.events = [
            e
            for e in self.events
            if (any(map(_lives, e.inside)) if isinstance(e, ModuleMoved) else _lives(e.subject))
        ]
        if len(self.tensor_moves) <= MOST_LINES:
            return
        living = {at: [m for m in moves if m.result() is not None] for at, moves in self.tensor_moves.items()}
        self.tensor_moves = {at: moves for at, moves in living.items() if moves}

    def record_move(self, move: TensorMoved) -> None:
        """Keep a tensor's move: the last 64 of each line."""
        at = self.tensor_moves.setdefault((move.place.code, move.place.lasti), [])
        at.append(move)
        if len(at) > 64:
            del at[0]
