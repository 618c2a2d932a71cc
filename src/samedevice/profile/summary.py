"""Processors: from what was recorded to traffic by place, loops, totals and a timeline."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, Final

from samedevice.model.diagnostic import Location
from samedevice.model.traffic import Source, Traffic
from samedevice.profile.cost import CostModel
from samedevice.profile.locate import Sources, Spot
from samedevice.profile.loops import Loop, span_of
from samedevice.profile.recorder import Marks, Recorder, Site, Step
from samedevice.program.files import USER, kind_of, package_of

DIRECTIONS: Final = ("h2d", "d2h", "d2d")
MOST_CALLERS: Final = 3


@dataclass(frozen=True, slots=True)
class LoopSummary:
    """A step loop and what a typical one of its steps costs (the median: an evaluation now and then is none).

    Attributes:
        kind: "training" (it steps an optimizer), "batches" (it fetches some) or "loop".
    """

    location: Location
    kind: str
    steps: int
    nbytes: dict[str, float]
    transfers: float
    syncs: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Profile:
    """What a program moved and waited for.

    Attributes:
        traffic: by place, the costliest first.
        by_caller: the same, told apart by the calls that lead to the place; what rules read.
        loops: the step loops, the busiest first.
        totals: counts, bytes and estimated seconds, by direction and for synchronisations.
        timeline: (index into `traffic`, step, seconds since the start, bytes, measured seconds).
        measured: on a real device, where measured times stand beside the estimates.
    """

    cost: CostModel
    traffic: tuple[Traffic, ...]
    by_caller: tuple[Traffic, ...]
    loops: tuple[LoopSummary, ...]
    totals: dict[str, dict[str, float]]
    steps: int
    timeline: tuple[tuple[int, int, float, int, float | None], ...] = ()
    dropped: int = 0
    measured: bool = False
    notes: tuple[str, ...] = field(default=())

    def to_dict(self, timeline: bool = True) -> dict[str, Any]:
        """For JSON."""
        data: dict[str, Any] = {
            "version": 1,
            "cost_model": self.cost.to_dict(),
            "measured": self.measured,
            "steps": self.steps,
            "totals": self.totals,
            "loops": [_loop_data(loop) for loop in self.loops],
            "traffic": [_traffic_data(traffic) for traffic in self.traffic],
        }
        if timeline:
            data["timeline"] = [list(event) for event in self.timeline]
            data["timeline_dropped"] = self.dropped
        return data


def summarise(recorder: Recorder, cost: CostModel, measured: bool = False) -> Profile:
    """Everything that reports show, from what was recorded."""
    sources = Sources()
    places: dict[tuple[object, ...], list[int]] = {}
    paths: dict[tuple[object, ...], list[int]] = {}
    around: list[tuple[Loop, Marks] | None] = []
    for index, site in enumerate(recorder.sites):
        loop = recorder.step_loop_of(site)
        around.append(loop)
        frames = site.stack.frames[max(site.stack.user, 0) :]
        # By the source text, not the instruction: Python's specialisation moves the latter.
        spans = [(frame.code.co_filename, span_of(frame.code, frame.lasti)) for frame in frames]
        key = (site.kind, site.what, site.function, site.stack.direct, loop and loop[0])
        places.setdefault((*key, *spans[:1]), []).append(index)
        paths.setdefault((*key, *spans), []).append(index)

    def tell(members: list[int]) -> Traffic:
        sites = [recorder.sites[i] for i in members]
        return _traffic(sites, around[members[0]], recorder, cost, sources, measured)

    told = [(tell(members), members) for members in places.values()]
    told.sort(key=lambda pair: (-(pair[0].measured or pair[0].seconds), pair[0].location))
    number = {site: rank for rank, (_, members) in enumerate(told) for site in members}
    traffic = tuple(t for t, _ in told)
    return Profile(
        cost=cost,
        traffic=traffic,
        by_caller=tuple(tell(members) for members in paths.values()),
        loops=_loops(recorder, around, cost, sources),
        totals=_totals(traffic),
        steps=recorder.batches or recorder.optimizer_steps,
        timeline=tuple(
            (number[e.site], e.step, round(e.time, 6), e.nbytes, e.seconds) for e in recorder.events
        ),
        dropped=recorder.dropped,
        measured=measured,
    )


def _traffic(
    sites: list[Site],
    around: tuple[Loop, Marks] | None,
    recorder: Recorder,
    cost: CostModel,
    sources: Sources,
    measured: bool,
) -> Traffic:
    first = sites[0]
    frame = first.stack.place
    spot = sources.spot(frame or (first.stack.frames[0] if first.stack.frames else None))
    if spot is None:
        spot = Spot(Location("<unknown>", 1), "", "")
    count = sum(s.count for s in sites)
    loader = next((recorder.loaders[s.loader] for s in sites if s.loader is not None), None)
    loader_spot = None
    if loader is not None and not loader[1]:
        loader_spot = sources.spot(loader[0].place)
    return Traffic(
        kind=first.kind,
        what=first.what,
        location=spot.location,
        expression=" ".join(spot.expression.split()),
        statement=sources.statement(spot),
        function=first.function,
        package=_package(first),
        direct=first.stack.direct,
        count=count,
        nbytes=sum(s.nbytes for s in sites),
        seconds=sum(_seconds(s, cost) for s in sites),
        measured=sum(s.measured for s in sites) if measured else None,
        steps=around[1].iterations if around else 0,
        hits=_hits(sites, around, recorder),
        loop=sources.loop(around[0]) if around else None,
        training=bool(around and around[1].optimizer_steps),
        pageable=sum(s.pageable for s in sites) * 2 > count,
        non_blocking=sum(s.non_blocking for s in sites) * 2 > count,
        unchanged=0 if any(s.parameters for s in sites) else sum(s.unchanged for s in sites),
        of_module=any(s.of_module for s in sites),
        dtype=first.dtype,
        shape=first.shape,
        source=_source(sites, count, sources),
        loader=None if loader_spot is None else loader_spot.location,
        callers=_callers(first, around[0] if around else None, recorder, sources),
        loader_text="" if loader_spot is None else loader_spot.text,
        text=spot.text,
    )


def _seconds(site: Site, cost: CostModel) -> float:
    if site.kind == "sync":
        return site.count * cost.sync() + site.nbytes / cost.pinned
    pinned = site.count - site.pageable
    blocking = site.count - (site.non_blocking if not site.pageable else 0)
    total = site.count * cost.call + blocking * cost.wait
    total += (site.nbytes - site.pageable_bytes) / cost.pinned if pinned else 0.0
    return total + site.pageable_bytes / cost.pageable


def _hits(sites: list[Site], around: tuple[Loop, Marks] | None, recorder: Recorder) -> int:
    """In how many steps it happened; in a loop without marks each time is a step."""
    if around is None:
        return 0
    loop, marks = around
    hits = sum(s.hits + s.early if loop in recorder.marks else s.count for s in sites)
    return min(hits, marks.iterations)


def _callers(site: Site, loop: Loop | None, recorder: Recorder, sources: Sources) -> tuple[Location, ...]:
    """The user's calls between the loop and the place, the nearest first."""
    if loop is None or site.stack.user < 0:
        return ()
    found: list[Location] = []
    for frame in site.stack.frames[site.stack.user :]:
        if kind_of(frame.code.co_filename) == USER:
            spot = sources.spot(frame)
            found += [] if spot is None else [spot.location]
        if loop in recorder.loops.of_frame(frame):
            return tuple(found[1 : MOST_CALLERS + 1])
    return ()


def _package(site: Site) -> str | None:
    inner = site.stack.frames[0] if site.stack.frames and site.stack.user != 0 else None
    return None if inner is None else package_of(inner.code.co_filename)


def _source(sites: list[Site], count: int, sources: Sources) -> Source | None:
    origin = next((s.origin for s in sites if s.origin is not None), None)
    if origin is None:
        return None
    spot = sources.spot(origin.place)
    returned = sum(s.round_trips for s in sites) * 2 > count
    left = sources.spot(origin.left) if returned and origin.left is not None else None
    return Source(
        action=origin.action,
        function=origin.function,
        location=None if spot is None else spot.location,
        fresh=sum(s.fresh for s in sites) * 2 > count,
        left=None if left is None else left.location,
    )


def _loops(
    recorder: Recorder, around: list[tuple[Loop, Marks] | None], cost: CostModel, sources: Sources
) -> tuple[LoopSummary, ...]:
    """Training as a whole, wherever its parts stand, and the loops besides."""
    marks = recorder.marks or {pair[0]: pair[1] for pair in around if pair is not None}
    found = []
    trains = [loop for loop, mark in marks.items() if mark.optimizer_steps]
    if trains:
        loop = max(trains, key=lambda loop: marks[loop].optimizer_steps)
        # The first one also has what comes before training, and there is something after the last.
        steps = [step for number, step in recorder.training.items() if 0 < number < recorder.training_steps]
        quiet = max(recorder.training_steps - 1 - len(steps), 0)
        found.append(_summary(sources.loop(loop), "training", recorder.training_steps, steps, quiet))
    for loop, mark in marks.items():
        if mark.optimizer_steps or (trains and mark.training_steps >= 0.8 * recorder.training_steps):
            continue
        steps = list(mark.steps.values())
        if not recorder.marks:  # nobody counted its iterations: its events are spread evenly
            spread: dict[int, Step] = {}
            for site in recorder.sites:
                for number in range(site.count if loop in site.loops else 0):
                    spread.setdefault(number % mark.iterations, Step()).add(site, site.nbytes // site.count)
            steps = list(spread.values())
        kind = "batches" if mark.batches else "loop"
        quiet = max(mark.iterations - len(steps), 0)
        found.append(_summary(sources.loop(loop), kind, mark.iterations, steps, quiet))
    priced = [replace(summary, seconds=_priced(summary, recorder, cost)) for summary in found]
    return tuple(sorted(priced, key=lambda s: (s.kind != "training", -s.seconds * s.steps)))


def _summary(location: Location, kind: str, count: int, steps: list[Step], quiet: int) -> LoopSummary:
    """`quiet` steps had no events at all."""
    everything = [*steps, *[Step()] * quiet] or [Step()]
    return LoopSummary(
        location,
        kind,
        count,
        {d: float(median(step.nbytes.get(d, 0) for step in everything)) for d in DIRECTIONS},
        float(median(step.transfers for step in everything)),
        float(median(step.syncs for step in everything)),
        0.0,
    )


def _priced(summary: LoopSummary, recorder: Recorder, cost: CostModel) -> float:
    """Seconds of a typical step: its bytes at the rate at which such bytes moved in the run."""
    total = summary.syncs * cost.sync()
    moved = sum(summary.nbytes.values())
    sites = [site for site in recorder.sites if site.kind == "transfer" and site.loops]
    nbytes = sum(site.nbytes for site in sites)
    if nbytes and moved:
        seconds = sum(_seconds(site, cost) - site.count * (cost.call + cost.wait) for site in sites)
        total += max(seconds, 0.0) * moved / nbytes
    count = sum(site.count for site in sites)
    blocking = sum(site.count - (site.non_blocking if not site.pageable else 0) for site in sites)
    if count:
        total += summary.transfers * (cost.call + cost.wait * blocking / count)
    return total


def _totals(traffic: Iterable[Traffic]) -> dict[str, dict[str, float]]:
    names = ("count", "bytes", "seconds", "measured")
    totals = {kind: dict.fromkeys(names, 0.0) for kind in (*DIRECTIONS, "sync")}
    for t in traffic:
        total = totals["sync" if t.kind == "sync" else t.what]
        total["count"] += t.count
        total["bytes"] += t.nbytes
        total["seconds"] += t.seconds
        total["measured"] += t.measured or 0.0
    return totals


def location_data(location: Location | None) -> dict[str, Any] | None:
    """A place for JSON."""
    if location is None:
        return None
    return {"path": location.path, "line": location.line, "column": location.column}


def _loop_data(loop: LoopSummary) -> dict[str, Any]:
    return {
        "location": location_data(loop.location),
        "kind": loop.kind,
        "steps": loop.steps,
        "bytes_per_step": loop.nbytes,
        "transfers_per_step": loop.transfers,
        "syncs_per_step": loop.syncs,
        "seconds_per_step": loop.seconds,
    }


def _traffic_data(t: Traffic) -> dict[str, Any]:
    return {
        "kind": t.kind,
        "what": t.what,
        "location": location_data(t.location),
        "end_line": t.location.end_line,
        "expression": t.expression,
        "function": t.function,
        "package": t.package,
        "count": t.count,
        "bytes": t.nbytes,
        "seconds": t.seconds,
        "measured": t.measured,
        "steps": t.steps,
        "loop": location_data(t.loop),
        "pageable": t.pageable,
        "non_blocking": t.non_blocking,
        "unchanged": t.unchanged,
        "of_module": t.of_module,
        "dtype": t.dtype,
        "shape": list(t.shape),
    }
