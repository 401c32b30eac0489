"""The plots: what they draw, and for whom."""

from __future__ import annotations

import re

import pytest
from support.made_runs import luck

from branchrank.measures.frontier import Standing
from branchrank.report.plots import _label_heights, draw, frontier, rates, standalone
from branchrank.runs.estimates import Estimate


@pytest.mark.parametrize("crowd", [1, 2, 9, 40])
def test_no_label_covers_a_label_or_a_point(crowd: int) -> None:
    points = [(480 * luck("x", n) ** 3, 260 * luck("y", n) ** 3) for n in range(crowd)]
    names = [f"system {n}" for n in range(crowd)]
    boxes = [
        (x + 14, x + 14 + 7 * len(name), height)
        for (x, _), name, height in zip(points, names, _label_heights(points, names), strict=True)
    ]
    for number, (left, right, height) in enumerate(boxes):
        others = [box for place, box in enumerate(boxes) if place != number]
        others += [(x - 5, x + 5, y) for place, (x, y) in enumerate(points) if place != number]
        for start, end, other in others:
            assert right < start or end < left or abs(height - other) >= 13.9


def test_a_label_with_room_stands_beside_its_point() -> None:
    assert _label_heights([(10.0, 20.0), (10.0, 200.0)], ["a", "b"]) == [20.0, 200.0]


def test_names_are_text_in_a_drawing_and_in_its_description() -> None:
    nasty = '<script>x</script> & "y"'
    plot = rates([(nasty, "strict_hit@1", Estimate(value=0.5, low=0.4, high=0.6, n=10))])
    svg = draw(plot)
    assert "<script" not in svg
    assert "&lt;script" in svg
    assert nasty in plot.description
    assert "50.0% (40.0–60.0)" in plot.description


def test_a_drawing_takes_the_colour_of_the_page() -> None:
    standing = Standing(name="local", quality=0.5, p95_ms=12.0, cost=0.0)
    svg = draw(frontier([standing], {"local"}, "strict_hit@1"))
    assert "currentColor" in svg
    assert not re.search('#010203|<rect[^>]*fill="white"', svg)
    assert "prefers-color-scheme:dark" in standalone(svg)


def test_equal_drawings_have_equal_bytes() -> None:
    estimates = [
        ("a", "strict_hit@1", Estimate(value=1 / 3, low=0.2, high=0.5, n=9)),
        ("b", "strict_hit@1", None),
    ]
    assert draw(rates(estimates)) == draw(rates(estimates))


def test_control_characters_in_a_name_do_not_end_the_process() -> None:
    """The drawing library aborts the process at some of them; no XML holds any."""
    nasty = ["a\0b", "a\x01\x1b[31mb", "a\ufffe\ud800b", "a\u202eb", "plain"]
    estimates = [(name, "strict_hit@1", Estimate(value=0.5, low=0.4, high=0.6, n=10)) for name in nasty]
    svg = draw(rates(estimates))
    assert svg.count("\N{REPLACEMENT CHARACTER}") >= 5
    assert not set(svg) & set("\0\x01\x1b\ufffe\u202e")
