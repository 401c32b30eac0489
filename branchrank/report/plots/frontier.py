"""The plot of quality against latency, with filled points on the frontier of quality, latency and cost."""

from __future__ import annotations

from collections.abc import Sequence
from math import log, log10, sqrt
from typing import Any

from branchrank.measures.frontier import Standing
from branchrank.report.blocks import Plot
from branchrank.report.plots.labels import Label, place_labels
from branchrank.report.plots.style import ACCENT, INK, MUTED, NARROW, WIDE, Frame, finished
from branchrank.runs.words import is_share, milliseconds, number, score

#: The areas of the smallest and largest points, in square pixels.
_LEAST_AREA, _MOST_AREA = 70, 420
#: A label is connected to its point by a line if the distance (in pixels) is larger than this.
_FAR_PIXELS = 10


def frontier(standings: Sequence[Standing], efficient: set[str], measure: str, unit: str) -> Plot:
    """Plot quality against p95 latency, with larger points for higher LLM cost."""
    described = "; ".join(_words(each, efficient, measure, unit) for each in standings)
    paid = any(each.cost for each in standings)
    return Plot(
        name="frontier",
        description=f"Quality against latency. {described}",
        caption="Better systems are higher up and further to the left. Filled points are on the frontier: a "
        "system that beats a filled point in quality, p95 or LLM cost is worse in one of the other two."
        + (f" Larger points have more {unit}." if paid else ""),
        spec=_chart(standings, efficient, (measure, unit), WIDE),
        narrow=_chart(standings, efficient, (measure, unit), NARROW),
    )


def _words(each: Standing, efficient: set[str], measure: str, unit: str) -> str:
    cost = f", {number(each.cost, 0 if each.cost >= 10 else 4)} {unit}" if each.cost else ""
    place = "on the frontier" if each.name in efficient else "not on the frontier"
    return f"{each.name} {score(each.quality, measure)} at {milliseconds(each.p95_ms)} ms{cost}, {place}"


def _chart(
    standings: Sequence[Standing], efficient: set[str], units: tuple[str, str], frame: Frame
) -> dict[str, Any]:
    import altair

    measure, _ = units
    rows, speeds, qualities = _rows(standings, efficient, units, frame)
    across = altair.X(
        "p95:Q",
        title="p95 latency, ms (logarithmic)",
        scale=altair.Scale(type="log", domain=speeds, nice=False),
        axis=altair.Axis(values=_ticks(*speeds), format="~r"),
    )
    up = altair.Y(
        "quality:Q",
        title=measure.replace("_", " "),
        scale=altair.Scale(domain=qualities, nice=False, zero=False),
        axis=altair.Axis(format=".0%" if is_share(measure) else ".2f", tickCount=5),
    )
    base = altair.Chart(altair.Data(values=rows))
    lines = (
        base.transform_filter("datum.far")
        .mark_rule(color=MUTED, opacity=0.7, aria=False)
        .encode(x=across, y=up, x2="label_x:Q", y2="label_y:Q")
    )
    points = base.mark_point(opacity=1, strokeWidth=2).encode(
        x=across,
        y=up,
        fill=altair.Fill("fill:N", scale=None),
        stroke=altair.Stroke("stroke:N", scale=None),
        size=altair.Size("area:Q", scale=None),
        description="words:N",
    )
    texts = [
        base.transform_filter(f"datum.side === '{side}'")
        .mark_text(
            align=align,
            baseline="middle",
            color=INK,
            aria=False,
            fontSize=frame.font,
            limit=frame.label_pixels,
        )
        .encode(x="label_x:Q", y="label_y:Q", text="predictor:N")
        for side, align in (("right", "left"), ("left", "right"))
    ]
    chart = altair.layer(lines, points, *texts).properties(width=frame.width, height=frame.height)
    return finished(chart, frame)


def _ticks(fastest: float, slowest: float) -> list[float]:
    """Return axis ticks at 1, 2 and 5 times each power of ten, or fewer ticks if the range is large."""
    powers = range(int(log10(fastest)) - 2, int(log10(slowest)) + 2)
    steps: tuple[int, ...] = (1, 3) if log10(slowest / fastest) > 1.8 else (1, 2, 5)
    if log10(slowest / fastest) > 4:
        steps = (1,)
    return [
        step * 10.0**power for power in powers for step in steps if fastest <= step * 10.0**power <= slowest
    ]


def _rows(
    standings: Sequence[Standing], efficient: set[str], units: tuple[str, str], frame: Frame
) -> tuple[list[dict[str, Any]], list[float], list[float]]:
    """Return the points with their labels, and the axis ranges for p95 latency and quality."""
    times = [max(0.01, each.p95_ms) for each in standings]
    qualities = [each.quality for each in standings]
    spread = max(4.0, max(times) / min(times))
    fastest, slowest = min(times) / spread**0.12, max(times) * spread**0.2
    air = 0.12 * (max(qualities) - min(qualities)) or 0.05
    lowest, highest = max(0.0, min(qualities) - air), min(1.0, max(qualities) + air)
    most = max(each.cost for each in standings) or 1
    areas = [_LEAST_AREA + (_MOST_AREA - _LEAST_AREA) * each.cost / most for each in standings]
    pixels = [
        (
            frame.width * log(time / fastest) / log(slowest / fastest),
            frame.height * (quality - lowest) / (highest - lowest),
        )
        for time, quality in zip(times, qualities, strict=True)
    ]
    labels = place_labels(
        pixels,
        [each.name for each in standings],
        [sqrt(area / 3.14159) + 1 for area in areas],
        frame,
    )

    def row(
        each: Standing, time: float, area: float, pixel: tuple[float, float], label: Label
    ) -> dict[str, Any]:
        on = each.name in efficient
        return {
            "predictor": each.name,
            "quality": each.quality,
            "p95": time,
            "area": area,
            "fill": ACCENT if on else "transparent",
            "stroke": ACCENT if on else MUTED,
            "label_x": fastest * (slowest / fastest) ** (label.x / frame.width),
            "label_y": lowest + (highest - lowest) * label.y / frame.height,
            "side": label.side,
            "far": abs(label.y - pixel[1]) > _FAR_PIXELS,
            "words": _words(each, efficient, *units),
        }

    rows = [row(*each) for each in zip(standings, times, areas, pixels, labels, strict=True)]
    return rows, [fastest, slowest], [lowest, highest]
