"""Records what crosses the bus: plain events in, places with their counts out. Never imports torch."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from samedevice.profile.loops import Loop, Loops
from samedevice.profile.stacks import Stack

#: events kept one by one for the timeline; the counts go on beyond
MOST_EVENTS: Final = 200_000
#: iterations of a loop that are told apart
MOST_STEPS: Final = 50_000
#: different contents that a place remembers, to know that it moves the same bytes again
MOST_CONTENTS: Final = 256


@dataclass(frozen=True, slots=True)
class Origin:
    """How the bytes of a transfer came to be, in the engine's words.

    Attributes:
        action, function: "created" by "torch.zeros".
        place: the frame that made them (anything with `code` and `lasti`), None when unknown.
        seq: order number of the birth.
        factory: made out of nothing by calls of factories.
        left: the frame in which they left the GPU, for what came from there.
        left_seq: order number of that.
    """

    action: str
    function: str = ""
    place: Any = None
    seq: int = 0
    factory: bool = False
    left: Any = None
    left_seq: int = 0


@dataclass(slots=True)
class Site:
    """One place of the program that does one kind of thing.

    Attributes:
        kind: "transfer" or "sync".
        what: "h2d", "d2h", "d2d" or the reason of a synchronisation.
        loops: the loops around it, outermost first.
        origin: of the last transfer.
        fresh, round_trips, unchanged: how many of the transfers were made in their own step, came back
            from the CPU within a step, moved bytes that were moved in the step before too.
        loader: number of the loader whose batch was moved, None for other data.
    """

    kind: str
    what: str
    stack: Stack
    function: str
    loops: tuple[Loop, ...] = ()
    count: int = 0
    nbytes: int = 0
    pageable: int = 0
    pageable_bytes: int = 0
    non_blocking: int = 0
    unchanged: int = 0
    fresh: int = 0
    round_trips: int = 0
    of_module: int = 0
    parameters: int = 0
    measured: float = 0.0
    dtype: str = ""
    shape: tuple[int, ...] = ()
    origin: Origin | None = None
    loader: int | None = None
    #: what it moved in this step and in the one before
    contents: set[object] = field(default_factory=set)
    last_contents: set[object] = field(default_factory=set)
    #: in how many iterations of its step loop it happened, and in which last
    hits: int = 0
    last_iteration: int = -1
    #: it happened before any loop around it was known to be a step loop
    early: bool = False

    def next_step(self) -> None:
        """What comes from now on is in another step."""
        self.last_contents, self.contents = self.contents, set()


@dataclass(slots=True)
class Step:
    """What happened in one iteration of a loop, loops inside of it included."""

    nbytes: dict[str, int] = field(default_factory=dict)
    transfers: int = 0
    syncs: int = 0

    def add(self, site: Site, nbytes: int) -> None:
        """Count one event."""
        if site.kind == "sync":
            self.syncs += 1
        else:
            self.transfers += 1
            self.nbytes[site.what] = self.nbytes.get(site.what, 0) + nbytes


@dataclass(slots=True)
class Marks:
    """How often batches were fetched and optimizers stepped, directly in one loop.

    Attributes:
        steps: what happened in its iterations, by the number of marks before.
        training_steps: in how many training steps there was a mark.
    """

    batches: int = 0
    optimizer_steps: int = 0
    training_steps: int = 0
    last_training_step: int = -1
    steps: dict[int, Step] = field(default_factory=dict)

    @property
    def iterations(self) -> int:
        """Iterations of the loop, as far as the marks tell."""
        return max(self.batches, self.optimizer_steps)


@dataclass(frozen=True, slots=True)
class Event:
    """One transfer or synchronisation of the timeline.

    Attributes:
        step: batches fetched before it, or optimizer steps where there are no loaders.
        time: seconds since the start, on the clock given.
        seconds: measured duration; None on virtual GPUs.
    """

    site: int
    step: int
    time: float
    nbytes: int
    seconds: float | None = None


class Recorder:
    """The state machine: told of transfers, synchronisations and marks.

    Attributes:
        sites: places in the order in which they were first met.
        events: the first `MOST_EVENTS` events one by one.
        marks: by loop.
        training: what happened in each training step: up to a step of the optimizer that stepped first.
        seq: gives growing order numbers; a step's origins have larger ones than its start.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        stack: Callable[[], Stack],
        seq: Callable[[], int] = lambda: 0,
    ) -> None:
        self.sites: list[Site] = []
        self.events: list[Event] = []
        self.marks: dict[Loop, Marks] = {}
        self.loops = Loops()
        self.batches = 0
        self.optimizer_steps = 0
        self.training: dict[int, Step] = {}
        self.training_steps = 0
        self._first_optimizer: object = None
        self.dropped = 0
        self.loaders: dict[int, tuple[Stack, bool]] = {}
        self._stack = stack
        self._clock = clock
        self.seq = seq
        self._started = clock()
        self._step_seq = 0
        self._known: dict[tuple[object, ...], int] = {}
        self._last_loader: int | None = None
        self._local = threading.local()
        self._lock = threading.Lock()

    # -- nesting ---------------------------------------------------------------------------------

    @property
    def inside(self) -> bool:
        """The calling thread is in the middle of something that is told as a whole (a print)."""
        return bool(getattr(self._local, "depth", 0))

    def enter(self) -> None:
        """What happens until `leave` belongs to the event told last."""
        self._local.depth = getattr(self._local, "depth", 0) + 1

    def leave(self) -> None:
        """End of what `enter` began."""
        self._local.depth -= 1

    # -- events ----------------------------------------------------------------------------------

    def transfer(
        self,
        what: str,
        nbytes: int,
        *,
        pinned: bool,
        non_blocking: bool,
        function: str,
        dtype: str = "",
        shape: tuple[int, ...] = (),
        content: object = None,
        origin: Origin | None = None,
        parameter: bool = False,
        seconds: float | None = None,
    ) -> tuple[int, int] | None:
        """A copy between devices; what it returns `measured` takes.

        Args:
            what: "h2d", "d2h" or "d2d".
            content: equal for two copies of the same unchanged bytes.
            parameter: the bytes are a module's parameter or buffer.
        """
        if self.inside:
            return None
        stack = self._stack()
        with self._lock:
            index = self._site("transfer", what, stack, function)
            site = self.sites[index]
            site.count += 1
            site.nbytes += nbytes
            site.dtype, site.shape, site.origin = dtype, shape, origin
            # Only host memory can be pinned; a copy between GPUs is never pageable.
            if not pinned and what != "d2d":
                site.pageable += 1
                site.pageable_bytes += nbytes
            site.non_blocking += non_blocking
            site.of_module += stack.of_module
            site.parameters += parameter
            if origin is not None:
                site.fresh += origin.factory and origin.seq > self._step_seq
                site.round_trips += origin.left is not None and origin.left_seq > self._step_seq
                if origin.action == "batched":
                    site.loader = self._last_loader
            event = self._event(index, nbytes, seconds)
            if content is not None:
                site.unchanged += content in site.last_contents
                if len(site.contents) < MOST_CONTENTS:
                    site.contents.add(content)
            return index, event

    def measured(self, handle: tuple[int, int] | None, seconds: float) -> None:
        """How long a transfer took, told later."""
        if handle is None:
            return
        site, event = handle
        with self._lock:
            self.sites[site].measured += seconds
            if event >= 0:
                self.events[event] = replace(self.events[event], seconds=seconds)

    def sync(
        self,
        what: str,
        nbytes: int = 0,
        *,
        function: str = "",
        shape: tuple[int, ...] = (),
        dtype: str = "",
        seconds: float | None = None,
    ) -> None:
        """The host waits for the GPU; `nbytes` come with it."""
        if self.inside:
            return
        stack = self._stack()
        with self._lock:
            index = self._site("sync", what, stack, function)
            site = self.sites[index]
            site.count += 1
            site.nbytes += nbytes
            site.shape, site.dtype = shape, dtype
            self._event(index, nbytes, seconds)

    def step_begins(self) -> None:
        """A batch is asked for: what is made from now on is made in this step."""
        with self._lock:
            self._step_seq = self.seq()

    def batch(self, loader: int | None = None) -> None:
        """A batch has come."""
        self._mark(batches=1)
        with self._lock:
            self.batches += 1
            self._last_loader = loader

    def optimizer_step(self, optimizer: object = 0) -> None:
        """An optimizer has stepped; `optimizer` tells several apart."""
        self._mark(optimizer_steps=1)
        with self._lock:
            self.optimizer_steps += 1
            if self._first_optimizer is None:
                self._first_optimizer = optimizer
            self.training_steps += optimizer == self._first_optimizer

    def loader_made(self, number: int, pins: bool) -> None:
        """A DataLoader was constructed."""
        self.loaders[number] = (self._stack(), pins)

    def _mark(self, batches: int = 0, optimizer_steps: int = 0) -> None:
        stack = self._stack()
        with self._lock:
            loops = dict.fromkeys(self.loops.of_stack(stack)[-1:])
            if batches:
                # Through a generator (a progress bar) the batch goes to the loop that asks it.
                loops.update(dict.fromkeys(self.loops.fetching(stack)))
            for loop in loops:
                marks = self.marks.setdefault(loop, Marks())
                marks.batches += batches
                marks.optimizer_steps += optimizer_steps
                if marks.last_training_step != self.training_steps:
                    marks.last_training_step = self.training_steps
                    marks.training_steps += 1
            if not self.batches and not batches:
                self._step_seq = self.seq()

    def _site(self, kind: str, what: str, stack: Stack, function: str) -> int:
        key = (kind, what, function, stack)
        index = self._known.get(key)
        if index is None:
            index = self._known[key] = len(self.sites)
            self.sites.append(Site(kind, what, stack, function, self.loops.of_stack(stack)))
        return index

    def _event(self, number: int, nbytes: int, seconds: float | None) -> int:
        site = self.sites[number]
        innermost = True
        for loop in reversed(site.loops):
            marks = self.marks.get(loop)
            if marks is None:
                continue
            iteration = marks.iterations
            if innermost and iteration != site.last_iteration:
                site.last_iteration = iteration
                site.hits += 1
                site.next_step()
            innermost = False
            if iteration < MOST_STEPS:
                marks.steps.setdefault(iteration, Step()).add(site, nbytes)
        if innermost:  # no loop around it has marks, yet or at all: each time is taken for a step
            site.early = True
            site.next_step()
        if self.training_steps < MOST_STEPS:
            self.training.setdefault(self.training_steps, Step()).add(site, nbytes)
        if seconds is not None:
            site.measured += seconds
        if len(self.events) >= MOST_EVENTS:
            self.dropped += 1
            return -1
        clock = self.batches or self.optimizer_steps
        self.events.append(Event(number, clock, self._clock() - self._started, nbytes, seconds))
        return len(self.events) - 1

    # -- afterwards ------------------------------------------------------------------------------

    def step_loop_of(self, site: Site) -> tuple[Loop, Marks] | None:
        """The loop whose iterations are the site's steps, None outside of step loops.

        It is the innermost loop around the site in which batches are fetched or optimizers step.
        Where a program has neither, it is the innermost loop with many iterations.
        """
        for loop in reversed(site.loops):
            if loop in self.marks:
                return loop, self.marks[loop]
        if self.marks or not site.loops:
            return None
        loop = site.loops[-1]
        most = max(
            (s.count for s in self.sites if s.loops and s.loops[-1] == loop and s.stack.direct), default=0
        )
        return (loop, Marks(batches=most)) if most >= MANY else None


#: iterations from which a loop without batches and optimizers counts as one that matters
MANY: Final = 10
