"""The page: whole in one file, escaped, and at work in a real browser."""

import html
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from browser import CHROMIUM, Browser, browser

from samedevice.inventory.record import Entry, Inventory, Kind, Role, Section
from samedevice.model.diagnostic import Confidence, Diagnostic, Evidence, Location, Severity
from samedevice.model.fix import Applicability, Edit, Fix, Point
from samedevice.model.outcome import Outcome
from samedevice.model.traffic import Traffic
from samedevice.profile.cost import cost_model
from samedevice.profile.summary import DIRECTIONS, LoopSummary, Profile
from samedevice.report.html import render_page
from samedevice.report.perfetto import render_trace

HOSTILE = "</script><script>window.hit=1</script><img src=x onerror='window.hit=1'>"

SOURCE = ["for x in loader:", "    x = x.to(device)", "    total += loss.item()"]


def read(path: str, cell: int | None) -> list[str] | None:
    return SOURCE if path != "missing.py" else None


def diagnostic(name: str = "train.py") -> Diagnostic:
    return Diagnostic(
        rule="sync-in-loop",
        severity=Severity.WARNING,
        confidence=Confidence.CERTAIN,
        message=f"`loss.item()` waits {name}",
        location=Location(name, 3, 14, 3, 25),
        evidence=(Evidence(Location(name, 1), f"the loop {name}"),),
        help="keep the tensor",
        fix=Fix("Add up", Applicability.UNSAFE, (Edit(name, Point(3, 19), Point(3, 23), "detach"),)),
        notes=("estimated",),
        count=20,
    )


def traffic(number: int, name: str = "train.py") -> Traffic:
    kind = ("transfer", "transfer", "transfer", "sync")[number % 4]
    what = ("h2d", "d2h", "d2d", "item")[number % 4]
    return Traffic(
        kind, what, Location(name, number % 3 + 1, 5, 1, 9), f"x{number}.to(device) {name}", count=5, nbytes=4096,
        seconds=number * 1e-5, steps=20, loop=Location(name, 1), pageable=True,
    )  # fmt: skip


def profile(events: int, name: str = "train.py") -> Profile:
    cost = cost_model()
    line = tuple((i % 8, i // 8, i * 1e-3, 4096, None) for i in range(events))
    loop = LoopSummary(
        Location(name, 1), "training", events // 8, dict.fromkeys(DIRECTIONS, 4096.0), 3, 1, 1e-3
    )
    totals = {key: {"count": 5.0, "bytes": 4096.0, "seconds": 1e-3} for key in (*DIRECTIONS, "sync")}
    return Profile(cost, tuple(traffic(i, name) for i in range(8)), (), (loop,), totals, events // 8, line)


def inventory(name: str = "model") -> Inventory:
    entries = tuple(
        Entry((name, f".layer{i}", f".w{name if name != 'model' else ''}"), Kind.PARAMETER, f"cuda:{i % 2}",
              "float32", (10, 10), 400 * (i + 1), True, True)
        for i in range(12)
    )  # fmt: skip
    return Inventory((Section(name, Role.MODEL, "Net", entries),))


def page(events: int = 80, name: str = "train.py", model: str = "model") -> str:
    outcome = Outcome(
        "profile", (diagnostic(name),), virtual_gpus=1, program="finished", notes=(f"a note {name}",)
    )
    return render_page(outcome, profile(events, name), inventory(model), read=read)


def data_of(text: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_everything_is_in_the_one_file() -> None:
    text = page()

    assert not re.search(r"""(src|href)=["']?(https?:|//)|url\(|@import|fetch\(|XMLHttp""", text)
    assert "default-src &#39;none&#39;" in text or "default-src 'none'" in text


def test_hostile_names_stay_text() -> None:
    text = page(name=HOSTILE, model=HOSTILE)

    assert text.count("<script") == 2 and "<img" not in text
    assert HOSTILE in data_of(text)["timeline"]["places"][0][1]


def test_the_page_of_a_check_has_no_timeline() -> None:
    outcome = Outcome("check", (diagnostic(),), virtual_gpus=1, program="finished")

    text = render_page(outcome, None, inventory(), read=read)

    assert 'id="timeline"' not in text and 'id="map"' in text and "1 problem" in text


def test_a_run_without_anything_is_a_page_too() -> None:
    empty = replace(profile(0), traffic=(), loops=())

    text = render_page(Outcome("profile", program="finished"), empty, None, read=read)

    assert "Nothing crossed the bus" in text and 'id="map"' not in text


def test_a_fix_is_shown_as_a_difference() -> None:
    text = html.unescape(page())

    assert "-     total += loss.item()" in text and "+     total += loss.detach()" in text


def test_the_trace_is_what_perfetto_reads() -> None:
    trace = json.loads(render_trace(profile(80)))

    bars = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert {"name", "ph", "ts", "dur", "pid", "tid"} <= bars[0].keys()
    assert len([bar for bar in bars if bar["cat"] != "step"]) == 80
    assert all(bar["dur"] > 0 for bar in bars)
    lanes = [bar for bar in bars if bar["tid"] == 1]
    assert all(a["ts"] + a["dur"] <= b["ts"] + 1e-6 for a, b in pairwise(lanes))


# -- in a browser --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("needs a Chromium")
    with browser() as running:
        yield running


def written(folder: Path, text: str) -> Path:
    path = folder / "page.html"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.slow
def test_a_hundred_thousand_events_are_drawn_and_reached_by_keyboard(
    chromium: Browser, tmp_path: Path
) -> None:
    tab = chromium.page()

    tab.open(written(tmp_path, page(events=100_000)))
    tab.run("document.getElementById('timeline-canvas').focus()")
    tab.press("Enter")
    tab.press("Enter")
    first = tab.run("document.getElementById('timeline-detail').textContent")
    tab.press("End")
    for _ in range(12):
        tab.press("+")
    tab.press("ArrowLeft")
    drawn = tab.run(
        "(() => { const c = document.getElementById('timeline-canvas'); const g = c.getContext('2d');"
        " return g.getImageData(0, 0, c.width, c.height).data.some((v, i) => i % 4 === 3 && v > 0); })()"
    )

    assert "x1.to(device)" in first and "step 0" in first and "4.1 kB" in first
    assert drawn
    assert tab.problems() == []


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_hostile_names_do_nothing_on_a_phone_in_light_and_dark(
    chromium: Browser, tmp_path: Path, dark: bool
) -> None:
    tab = chromium.page()

    tab.open(
        written(tmp_path, page(name=HOSTILE, model=HOSTILE)), width=360, height=740, dark=dark, touch=True
    )
    background = tab.run("getComputedStyle(document.body).backgroundColor")
    tab.run("document.querySelectorAll('#map-area button')[0].click()")

    assert tab.run("window.hit") is None
    assert tab.run("document.documentElement.scrollWidth") <= 360
    assert background == ("rgb(21, 23, 26)" if dark else "rgb(255, 255, 255)")
    assert tab.problems() == []


@pytest.mark.slow
def test_the_table_sorts_and_the_map_opens(chromium: Browser, tmp_path: Path) -> None:
    tab = chromium.page()
    tab.open(written(tmp_path, page()))

    tab.run("document.querySelectorAll('#places th button')[1].click()")
    down = tab.run(
        "[...document.querySelectorAll('#places tbody tr')].map(r => Number(r.cells[1].dataset.value))"
    )
    tab.run("document.querySelectorAll('#places th button')[1].click()")
    up = tab.run(
        "[...document.querySelectorAll('#places tbody tr')].map(r => Number(r.cells[1].dataset.value))"
    )
    blocks = tab.run(
        "[...document.querySelectorAll('#map-area button')].map(b => b.getAttribute('aria-label'))"
    )
    areas = tab.run(
        "[...document.querySelectorAll('#map-area button')].map(b => b.offsetWidth * b.offsetHeight)"
    )

    assert down == sorted(down, reverse=True) and up == sorted(up)
    assert len(blocks) == 12 and blocks[0].startswith(".layer11") and "cuda:1" in blocks[0]
    assert areas[0] == pytest.approx(12 * areas[-1], rel=0.1)
    assert tab.problems() == []
