"""The HTML report: one page with everything in it, which needs no network and no server."""

import json
from collections.abc import Iterator, Sequence
from difflib import ndiff
from typing import Any

from samedevice._version import __version__
from samedevice.inventory.fold import size
from samedevice.inventory.record import Inventory
from samedevice.model.diagnostic import Diagnostic, Location
from samedevice.model.outcome import Outcome
from samedevice.model.traffic import Traffic
from samedevice.profile.summary import Profile
from samedevice.report.excerpt import Files, ReadLines, source_line
from samedevice.report.traffic import short
from samedevice.rules.traffic import shown_size, shown_time

#: places listed in the table; the rest is added up in its last line
MOST_PLACES = 400

ROUTES = {"h2d": "CPU → GPU", "d2h": "GPU → CPU", "d2d": "GPU → GPU"}
_AROUND = 2


def render_page(
    outcome: Outcome,
    profile: Profile | None = None,
    inventory: Inventory | None = None,
    *,
    root: str | None = None,
    read: ReadLines | None = None,
) -> str:
    """The page; without a profile there is no timeline, without an inventory no map.

    Args:
        root: folder that the report's relative paths start from.
        read: how source lines are read; from the files under `root` when None.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    read = read if read is not None else Files(root)
    environment = Environment(
        loader=PackageLoader("samedevice.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"size": shown_size, "time": shown_time, "inline": _inline, "short": short}
    parts = environment.loader
    assert parts is not None
    data = {"timeline": _timeline(profile), "map": _map(inventory)}
    return environment.get_template("page.html.j2").render(
        version=__version__,
        outcome=outcome,
        headline=_headline(outcome),
        diagnostics=[_diagnostic(d, read) for d in outcome.diagnostics],
        profile=profile,
        routes=ROUTES,
        places=_places(profile, read),
        left_out=max(len(profile.traffic) - MOST_PLACES, 0) if profile else 0,
        totals=_totals(inventory),
        has_map=bool(data["map"]),
        has_timeline=profile is not None and bool(profile.timeline),
        style=Markup(_source(environment, "page.css")),
        script=Markup(_source(environment, "page.js")),
        data=Markup(_json(data)),
    )


def _source(environment: Any, name: str) -> str:
    return str(environment.loader.get_source(environment, name)[0])


def _json(data: Any) -> str:
    """JSON that cannot end the script element it stands in, whatever the names in it are."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _inline(text: str) -> Any:
    """Escaped text with `code` in backticks as code."""
    from markupsafe import Markup, escape

    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if i % 2 else escape(part) for i, part in enumerate(parts)
    )


def _headline(outcome: Outcome) -> str:
    count = len(outcome.diagnostics)
    if count:
        return f"{count} problem{'s' if count != 1 else ''}"
    return "nothing costs more than it need" if outcome.command == "profile" else "no device mistakes"


def _excerpt(location: Location, read: ReadLines, around: int = _AROUND) -> list[tuple[int, str, bool]]:
    """Lines around a place: (number, text, whether it is the place itself)."""
    lines = read(location.path, location.cell)
    if lines is None or not 0 < location.line <= len(lines):
        return []
    last = min(max(location.end_line or location.line, location.line), location.line + 6, len(lines))
    first = max(location.line - around, 1)
    return [
        (number, lines[number - 1].expandtabs(4).rstrip(), location.line <= number <= last)
        for number in range(first, min(last + around, len(lines)) + 1)
    ]


def _diagnostic(d: Diagnostic, read: ReadLines) -> dict[str, Any]:
    return {
        "d": d,
        "place": _place(d.location),
        "code": _excerpt(d.location, read),
        "evidence": [(_place(e.location), e.message, source_line(e.location, read)) for e in d.evidence],
        "raised": None if d.raised is None else (_place(d.raised.location), d.raised),
        "edits": _edits(d, read),
    }


def _edits(d: Diagnostic, read: ReadLines) -> list[tuple[str, list[str]]]:
    """For each file that the fix changes: its first line and the difference, line by line."""
    if d.fix is None:
        return []
    shown = []
    by_place: dict[tuple[str, int | None], list[Any]] = {}
    for edit in d.fix.edits:
        by_place.setdefault((edit.path, edit.cell), []).append(edit)
    for (path, cell), edits in by_place.items():
        lines = read(path, cell)
        first = min(edit.start.line for edit in edits)
        last = max(edit.end.line for edit in edits)
        if lines is None or last > len(lines):
            continue
        old = list(lines[first - 1 : last])
        text = "\n".join(old)
        starts = [0]
        for line in old:
            starts.append(starts[-1] + len(line) + 1)
        for edit in sorted(edits, key=lambda e: e.start, reverse=True):
            start = starts[edit.start.line - first] + edit.start.column - 1
            end = starts[edit.end.line - first] + edit.end.column - 1
            text = text[:start] + edit.new_text + text[end:]
        difference = [line for line in ndiff(old, text.split("\n")) if line[0] != "?"]
        shown.append((f"{path}:{first}", list(_near_changes(difference))))
    return shown


def _near_changes(lines: list[str], around: int = 1) -> Iterator[str]:
    """Changed lines with a little around them."""
    changed = [i for i, line in enumerate(lines) if line[0] != " "]
    left_out = False
    for i, line in enumerate(lines):
        if any(abs(i - at) <= around for at in changed):
            if left_out:
                yield "  …"
            left_out = False
            yield line
        else:
            left_out = True


def _place(location: Location) -> str:
    return str(location).rsplit(":", 1)[0]


def _places(profile: Profile | None, read: ReadLines) -> list[dict[str, Any]]:
    if profile is None:
        return []
    return [
        {
            "t": t,
            "number": number,
            "what": ROUTES.get(t.what, f"wait: {t.what}"),
            "kind": t.what if t.kind == "transfer" else "sync",
            "place": _place(t.location),
            "code": source_line(t.location, read) or t.expression or t.function,
            "tags": list(_tags(t)),
        }
        for number, t in enumerate(profile.traffic[:MOST_PLACES])
    ]


def _tags(t: Traffic) -> Iterator[str]:
    if t.of_module:
        yield "a module moves"
    if t.kind == "transfer" and t.what != "d2d":
        yield "pageable" if t.pageable else "pinned"
        yield "asynchronous" if t.non_blocking and not t.pageable else "blocking"
    if t.unchanged:
        yield f"{t.unchanged} × the same bytes as in the step before"
    if t.package is not None:
        yield f"in {t.package}"


def _totals(inventory: Inventory | None) -> list[tuple[str, str]]:
    if inventory is None:
        return []
    return [(device, size(n)) for device, n in sorted(inventory.bytes_by_device().items())]


def _timeline(profile: Profile | None) -> dict[str, Any] | None:
    """Columns, not rows: half the size."""
    if profile is None or not profile.timeline:
        return None
    kinds = ("h2d", "d2h", "d2d", "sync")
    names = [t.what if t.kind == "transfer" else "sync" for t in profile.traffic]
    cost = profile.cost
    seconds = []
    for number, _, _, nbytes, measured in profile.timeline:
        t = profile.traffic[number]
        if measured is not None:
            seconds.append(measured)
        elif t.kind == "sync":
            seconds.append(cost.sync())
        else:
            blocking = t.pageable or not t.non_blocking
            seconds.append(cost.transfer(nbytes, pinned=not t.pageable, blocking=blocking))
    return {
        "kinds": kinds,
        "kind": [kinds.index(names[e[0]]) for e in profile.timeline],
        "place": [e[0] for e in profile.timeline],
        "step": [e[1] for e in profile.timeline],
        "bytes": [e[3] for e in profile.timeline],
        "ns": [round(s * 1e9) for s in seconds],
        "places": [
            [_place(t.location), t.expression or t.function, ROUTES.get(t.what, f"wait: {t.what}")]
            for t in profile.traffic
        ],
        "dropped": profile.dropped,
    }


def _map(inventory: Inventory | None) -> list[dict[str, Any]] | None:
    """The tree of names with bytes at its leaves; [name, device, bytes, what] or [name, children]."""
    if inventory is None:
        return None
    found = []
    for section in inventory.sections:
        root: dict[str, Any] = {}
        for entry in section.entries:
            if entry.alias or not entry.nbytes:
                continue
            node = root
            for step in entry.steps[1:-1]:
                node = node.setdefault(step, {})
                if isinstance(node, list):  # a tensor with its gradient below it
                    break
            if isinstance(node, list):
                node[2] += entry.nbytes
                continue
            last = entry.steps[-1]
            shape = "×".join(map(str, entry.shape)) or "scalar"
            node[last] = [entry.device, f"{entry.kind} {shape} {entry.dtype}", entry.nbytes]
        if root:
            found.append(
                {"n": f"{section.name} ({section.class_name})", "c": _children(root)}
                if not isinstance(root, list)
                else {}
            )
    return found or None


def _children(node: dict[str, Any]) -> Sequence[dict[str, Any]]:
    return [
        {"n": name, "d": child[0], "w": child[1], "b": child[2]}
        if isinstance(child, list)
        else {"n": name, "c": _children(child)}
        for name, child in node.items()
    ]
