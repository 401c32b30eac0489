"""The plots: what they draw, and for whom."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from altair import Chart
from support.comparing import against
from support.made_runs import Planned, luck, make_questions, make_run

from branchrank.reports.costs import sweeps
from branchrank.reports.drawing import FONT, HEIGHT, WIDTH, drawings, text_pixels
from branchrank.reports.line_plots import Swept, losses, risks, sweep
from branchrank.reports.plots import LINE_PIXELS, differences, frontier, place_labels, rates
from branchrank.runs.estimates import Standing
from branchrank.runs.scores import Estimate
from branchrank.scoring.comparison import Comparison


def compared(*names: str, measure: str = "strict_hit@1", delta: float = 0.05) -> tuple[Comparison, ...]:
    """Comparisons of systems with a baseline over sixty questions."""
    ids = [f"q{number}" for number in range(60)]
    scores = {name: {key: float(luck(name, key) < 0.6) for key in ids} for name in ("local", *names)}
    return against(scores, {key: key for key in ids}, "local", measure, delta=delta)


def standing(name: str, quality: float = 0.5, p95_ms: float = 12.0, cost: float = 0.0) -> Standing:
    return Standing(name=name, quality=quality, p95_ms=p95_ms, cost=cost)


def check_schema(spec: dict) -> None:
    """Altair's schema allows the plot; ``None``, no background, is Vega-Lite's alone."""
    Chart.from_dict({**spec, "background": "white"})


def values(spec: dict) -> list[dict]:
    """The rows of the first data set with words."""
    found = [spec.get("data", {}), *(layer.get("data", {}) for layer in spec.get("layer", []))]
    return next(each["values"] for each in found if "words" in (each.get("values") or [{}])[0])


@pytest.mark.parametrize("crowd", [1, 2, 9, 40])
def test_no_label_covers_a_label_or_a_point(crowd: int) -> None:
    points = [(WIDTH * luck("x", n) ** 3, HEIGHT * luck("y", n) ** 3) for n in range(crowd)]
    names = [f"system {n}" for n in range(crowd)]
    boxes = []
    labels = place_labels(points, names, [5.0] * crowd)
    for (x, y, side), name in zip(labels, names, strict=True):
        left = x if side == "right" else x - text_pixels(name)
        assert left >= 0
        assert left + text_pixels(name) <= WIDTH
        assert y >= LINE_PIXELS / 2, "the numbers of the axis are below"
        boxes.append((left, left + text_pixels(name), y))
    for number, (left, right, height) in enumerate(boxes):
        others = [box for place, box in enumerate(boxes) if place != number]
        for start, end, other in others:
            assert right <= start or end <= left or abs(height - other) >= FONT
        for x, y in points:
            assert right <= x - 5 or x + 5 <= left or abs(height - y) >= FONT / 2


def test_the_largest_difference_is_first_and_every_row_shows_its_numbers() -> None:
    [a, b] = compared("a", "b")
    plot = differences((a, b))
    check_schema(plot.spec)
    rows = values(plot.spec)
    assert rows[0]["value"] >= rows[1]["value"]
    for row, each in zip(rows, sorted((a, b), key=lambda each: -each.difference), strict=True):
        assert row["value"] == pytest.approx(100 * each.difference)
        assert (row["low"], row["high"]) == pytest.approx((100 * each.ci_low, 100 * each.ci_high))
        assert row["words"].startswith(f"{each.candidate} vs local: ")


def test_the_margin_is_a_band_around_no_difference() -> None:
    plot = differences(compared("a", delta=0.05))
    [band] = plot.spec["layer"][0]["data"]["values"] if "data" in plot.spec["layer"][0] else [{}]
    assert (band["from"], band["zero"], band["to"]) == (-5.0, 0, 5.0)
    assert "5 points" in plot.caption
    assert "band" not in differences(compared("a", delta=0.0)).caption


def test_names_are_escaped_in_a_plot_and_its_description() -> None:
    nasty = '<script>x</script> & "y"'
    plot = differences(compared(nasty))
    for svg in drawings([plot]).values():
        assert "<script" not in svg
        assert "&lt;script" in svg
    assert nasty in plot.description


def test_every_value_of_the_frontier_has_a_mark_with_a_description() -> None:
    points = [standing("local"), standing("asks", 0.7, 900.0, 1050.0)]
    plot = frontier(points, {"local", "asks"}, "strict_hit@1", "LLM tokens per query")
    for svg in drawings([plot]).values():
        labels = re.findall(r'aria-label="([^"]*)" role="graphics-symbol" aria-roledescription="point"', svg)
        assert labels == [
            "local 50.0% at 12.0 ms, on the frontier",
            "asks 70.0% at 900 ms, 1050 LLM tokens per query, on the frontier",
        ]


def test_control_characters_in_a_name_do_not_end_the_process() -> None:
    """The drawing library aborts the process at some of them; no XML holds any."""
    nasty = ["a\0b", "a\x01\x1b[31mb", "a\ufffe\ud800b", "a\u202eb", "plain"]
    estimate = Estimate(value=0.5, low=0.4, high=0.6, n=10)
    swept = [Swept(name=name, values={"k": name}, estimate=estimate) for name in nasty]
    for plot in (
        rates([(name, "strict_hit@1", estimate) for name in nasty]),
        losses([(name, "failed", 1) for name in nasty]),
        frontier([standing(name) for name in nasty], set(nasty), "strict_hit@1", "tokens"),
        risks([(name, [(0.5, 0.2), (1.0, 0.4)]) for name in nasty]),
        sweep("nasty", swept, "k", "strict_hit@1", 1),
    ):
        check_schema(plot.spec)
        for svg in drawings([plot]).values():
            assert svg.count("\N{REPLACEMENT CHARACTER}") >= 4
            assert not set(svg) & set("\0\x01\x1b\ufffe\u202e")


def test_a_sweep_has_a_curve_for_each_setting_with_its_intervals(tmp_path: Path) -> None:
    arms = [Planned(f"s[k={k}, weight={weight}]", 0.4) for k in (10, 60) for weight in (0.5, 1.0)]
    run = make_run(tmp_path, [Planned("local", 0.5), *arms], make_questions(20), latency_sample=0)
    section = sweeps(run)
    assert section is not None
    by_k, by_weight = section.blocks[:2]
    assert (by_k.name, by_weight.name) == ("sweep-1", "sweep-2")
    rows = values(by_k.spec)
    assert [(row["value"], row["others"]) for row in rows] == [
        (10.0, "weight=0.5"),
        (10.0, "weight=1.0"),
        (60.0, "weight=0.5"),
        (60.0, "weight=1.0"),
    ]
    for row, arm in zip(rows, run.summary_rows[1:], strict=True):
        assert row["mean"] == arm.rates["strict_hit@1"]
        assert row["low"] <= row["mean"] <= row["high"]
    assert len(drawings([by_k, by_weight])) == 2
