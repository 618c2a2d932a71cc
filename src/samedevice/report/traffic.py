"""The table of a profile as text: what a step moves, and the places that cost most."""

from textwrap import wrap
from typing import Any

from samedevice.model.diagnostic import Location
from samedevice.profile.summary import Profile
from samedevice.rules.traffic import shown_size, shown_time

_ROUTES = {"h2d": "CPU → GPU", "d2h": "GPU → CPU", "d2d": "GPU → GPU"}


def render(profile: Profile, *, width: int = 80, most: int = 12) -> str:
    """The table, ending in a newline; empty when nothing crossed the bus."""
    if not profile.traffic:
        return "nothing crossed the bus\n"
    lines = []
    for loop in profile.loops:
        if loop.steps < 2:
            continue
        what = {"training": "training step", "batches": "step without an optimizer", "loop": "iteration"}[
            loop.kind
        ]
        moved = ", ".join(f"{shown_size(n)} {_ROUTES[d]}" for d, n in loop.nbytes.items() if n)
        lines.append(f"{short(loop.location)}  {loop.steps} steps; a {what}:")
        text = (
            f"{moved or 'no bytes moved'} in {loop.transfers:.3g} copies, {loop.syncs:.3g} synchronisations, "
            f"estimated {shown_time(loop.seconds)}"
        )
        lines += wrap(text, width, initial_indent="    ", subsequent_indent="    ")
    totals = ", ".join(
        f"{shown_size(total['bytes'])} {_ROUTES[name]} in {total['count']:.0f}"
        for name, total in profile.totals.items()
        if name in _ROUTES and total["count"]
    )
    waits = f"{profile.totals['sync']['count']:.0f} synchronisations"
    lines += [*wrap(f"whole run: {totals or 'no copies'}; {waits}", width, subsequent_indent="    "), ""]
    beside = f" {'measured':>9}" if profile.measured else ""
    lines.append(f"{'estimate':>9}{beside} {'count':>7} {'bytes':>9}  what        place")
    for traffic in profile.traffic[:most]:
        what = _ROUTES.get(traffic.what, f"sync {traffic.what}")
        place = short(traffic.location)
        text = traffic.expression or traffic.function
        real = "" if traffic.measured is None else f" {shown_time(traffic.measured):>9}"
        room = max(width - 42 - len(real) - len(place), 10)
        text = text if len(text) <= room else text[: room - 1] + "…"
        lines.append(
            f"{shown_time(traffic.seconds):>9}{real} {traffic.count:>7} {shown_size(traffic.nbytes):>9}  {what:<11} {place} {text}"
        )
    if len(profile.traffic) > most:
        lines.append(f"… and {len(profile.traffic) - most} more places")
    lines += wrap(f"estimates are for {profile.cost}", width)
    return "\n".join(lines) + "\n"


def short(location: Location) -> str:
    """`file:line`; a file of an installed package by its path within the packages."""
    path = location.path.replace("\\", "/").rpartition("/site-packages/")[2]
    return f"{path}:{location.line}"


def difference(before: dict[str, Any], after: dict[str, Any], *, width: int = 80) -> str:
    """Two profiles side by side, from their JSON."""
    lines = [f"{'':<26} {'before':>12} {'after':>12} {'change':>12}"]

    def row(name: str, old: float, new: float, shown: Any) -> None:
        change = new - old
        text = "same" if abs(change) <= 1e-12 else ("+" if change > 0 else "−") + shown(abs(change))
        lines.append(f"{name:<26} {shown(old):>12} {shown(new):>12} {text:>12}")

    def count(n: float) -> str:
        return f"{n:.3g}" if n < 1000 else f"{n:.0f}"

    for name, route in (*_ROUTES.items(), ("sync", "synchronisations")):
        old, new = before["totals"][name], after["totals"][name]
        if not old["count"] and not new["count"]:
            continue
        row(f"{route}, number", old["count"], new["count"], count)
        row(f"{route}, bytes", old["bytes"], new["bytes"], shown_size)
        row(f"{route}, time", old["seconds"], new["seconds"], shown_time)
    for kind in ("training", "batches", "loop"):
        pair = [next((loop for loop in p["loops"] if loop["kind"] == kind), None) for p in (before, after)]
        if pair[0] is None or pair[1] is None:
            continue
        lines.append(f"a step of the {kind} loop")
        for name in _ROUTES:
            old_bytes, new_bytes = (loop["bytes_per_step"][name] for loop in pair if loop)
            if old_bytes or new_bytes:
                row(f"  {_ROUTES[name]}, bytes", old_bytes, new_bytes, shown_size)
        row("  copies", pair[0]["transfers_per_step"], pair[1]["transfers_per_step"], count)
        row("  synchronisations", pair[0]["syncs_per_step"], pair[1]["syncs_per_step"], count)
        row("  time", pair[0]["seconds_per_step"], pair[1]["seconds_per_step"], shown_time)
    lines += _places(before, after, width)
    return "\n".join(lines) + "\n"


def _places(before: dict[str, Any], after: dict[str, Any], width: int) -> list[str]:
    """Places that came, went or changed, told by their source text: lines and files get other names."""

    def by_text(profile: dict[str, Any]) -> tuple[dict[tuple[str, str], float], dict[tuple[str, str], str]]:
        seconds: dict[tuple[str, str], float] = {}
        where: dict[tuple[str, str], str] = {}
        for t in profile["traffic"]:
            key = (t["what"], t["expression"] or t["function"])
            seconds[key] = seconds.get(key, 0.0) + t["seconds"]
            where.setdefault(key, t["location"]["path"])
        return seconds, where

    (old, old_where), (new, new_where) = by_text(before), by_text(after)
    changes = [(new.get(key, 0.0) - old.get(key, 0.0), key) for key in {*old, *new}]
    changes = sorted((c for c in changes if abs(c[0]) > 1e-9), key=lambda c: (-abs(c[0]), c[1]))
    if not changes:
        return []
    lines = ["places"]
    for change, key in changes[:20]:
        what, text = key
        mark = "gone" if key not in new else "new" if key not in old else ""
        head = f"  {'+' if change > 0 else '−'}{shown_time(abs(change))} {mark}"
        path = new_where.get(key) or old_where[key]
        lines.append(f"{head:<16} {_ROUTES.get(what, 'sync ' + what)} {path}: {text}"[:width])
    if len(changes) > 20:
        lines.append(f"  … and {len(changes) - 20} more")
    return lines
