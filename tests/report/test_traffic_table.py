"""The table of a profile, and two profiles side by side."""

from dataclasses import replace

from test_html_page import profile, traffic

from samedevice.report.traffic import difference, render


def test_the_table_tells_steps_places_and_assumptions() -> None:
    text = render(profile(80))

    assert "train.py:1  10 steps; a training step:" in text
    assert "4.1 kB CPU → GPU" in text and "estimates are for PCIe 4.0 x16" in text
    assert max(map(len, text.splitlines())) <= 80


def test_measured_times_stand_beside_the_estimates() -> None:
    told = profile(80)
    real = tuple(replace(t, measured=1e-3) for t in told.traffic)

    text = render(replace(told, measured=True, traffic=real))

    assert " estimate  measured" in text and "   10 µs    1.0 ms" in text


def test_a_run_without_copies_says_so() -> None:
    assert render(replace(profile(0), traffic=(), loops=())) == "nothing crossed the bus\n"


def test_a_difference_tells_what_a_change_saved() -> None:
    before = profile(80)
    after = replace(
        before,
        traffic=(replace(traffic(1), seconds=4e-5), *before.traffic[2:]),
        totals=before.totals | {"h2d": {"count": 1.0, "bytes": 1024.0, "seconds": 5e-4}},
    )

    text = difference(before.to_dict(), after.to_dict())

    assert "CPU → GPU, bytes                 4.1 kB       1.0 kB      −3.1 kB" in text
    assert "+30 µs" in text and "x1.to(device)" in text
    assert "x2.to(device)" not in text


def test_equal_profiles_differ_in_nothing() -> None:
    text = difference(profile(80).to_dict(), profile(80).to_dict())

    assert "places" not in text and "same" in text and "+" not in text
