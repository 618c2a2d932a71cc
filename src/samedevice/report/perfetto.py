"""The timeline in Chrome's trace format, which ui.perfetto.dev and chrome://tracing open."""

import json
from typing import Any

from samedevice.model.traffic import Traffic
from samedevice.profile.summary import Profile

_LANES = {"h2d": (1, "CPU → GPU"), "d2h": (2, "GPU → CPU"), "d2d": (3, "GPU → GPU"), "sync": (4, "waits")}


def render_trace(profile: Profile) -> str:
    """The trace as JSON; times are in microseconds.

    On virtual GPUs the events stand one after the other with their estimated durations: when they
    would take place on a GPU is not known, only their order is.
    """
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "samedevice profile"}},
        *(
            {"ph": "M", "name": "thread_name", "pid": 1, "tid": lane, "args": {"name": name}}
            for lane, name in _LANES.values()
        ),
    ]
    now = 0.0
    step: int | None = None
    step_start = 0.0
    for number, event_step, moment, nbytes, measured in profile.timeline:
        t = profile.traffic[number]
        if event_step != step:
            if step is not None:
                events.append(_step(step, step_start, now))
            step, step_start = event_step, now
        duration = (_estimate(t, nbytes, profile) if measured is None else measured) * 1e6
        start = now if measured is None else max(now, moment * 1e6 - duration)
        what = t.what if t.kind == "transfer" else "sync"
        events.append(
            {
                "ph": "X",
                "name": t.expression or t.function,
                "cat": t.what,
                "pid": 1,
                "tid": _LANES[what][0],
                "ts": round(start, 3),
                "dur": round(duration, 3),
                "args": {
                    "place": f"{t.location.path}:{t.location.line}",
                    "bytes": nbytes,
                    "step": event_step,
                    "pinned": not t.pageable,
                    "non_blocking": t.non_blocking,
                },
            }
        )
        now = start + duration
    if step is not None:
        events.append(_step(step, step_start, now))
    note = "measured" if profile.measured else f"durations estimated for {profile.cost}"
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"times": note}}) + "\n"


def _step(step: int, start: float, end: float) -> dict[str, Any]:
    return {
        "ph": "X", "name": f"step {step}", "cat": "step", "pid": 1, "tid": 0, "ts": round(start, 3),
        "dur": round(max(end - start, 0.001), 3), "args": {},
    }  # fmt: skip


def _estimate(t: Traffic, nbytes: int, profile: Profile) -> float:
    if t.kind == "sync":
        return profile.cost.sync()
    return profile.cost.transfer(nbytes, pinned=not t.pageable, blocking=t.pageable or not t.non_blocking)
