"""The plots of differences, of rates, and of quality against latency, as Vega-Lite specifications."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from math import log, log10, sqrt
from typing import Any

from branchrank.reports.blocks import Plot
from branchrank.reports.drawing import (
    ACCENT,
    BAD,
    FONT,
    FULL_WIDTH,
    GOOD,
    HEIGHT,
    INK,
    LABEL_PIXELS,
    MUTED,
    WIDTH,
    ends,
    finished,
    measured,
    text_pixels,
)
from branchrank.runs.estimates import Standing
from branchrank.runs.scores import Estimate
from branchrank.runs.words import (
    confidence,
    gap_with_interval,
    interval,
    is_share,
    margin,
    milliseconds,
    number,
    plural,
    score,
    verdict_words,
)
from branchrank.scoring.comparison import Comparison

#: The short name, shape and color for each verdict. The names and shapes are for readers who can't
#: distinguish the colors.
_LOOKS = {
    "better": ("better", "triangle-right", GOOD),
    "worse": ("worse", "triangle-left", BAD),
    "equivalent within delta": ("equivalent within delta", "square", ACCENT),
    "inconclusive": ("inconclusive", "circle", MUTED),
    "too few questions to tell": ("too few questions to tell", "circle", MUTED),
}
#: The height of a row with its name and numbers on one line, and of another line of text.
_ROW_PIXELS, LINE_PIXELS = 46, 16
#: The width of the column with a row's numbers.
_NUMBERS_PIXELS = 145
#: The areas of the smallest and largest points, in square pixels.
_LEAST_AREA, _MOST_AREA = 70, 420
#: The distance between a label and its point, and the distance from which a line connects the two.
_GAP, _FAR_PIXELS = 4, 10

Estimates = Sequence[tuple[str, str, Estimate | None]]


def differences(comparisons: Sequence[Comparison]) -> Plot:
    """Plot a run's comparisons, one per row, in descending order of difference."""
    ordered = sorted(comparisons, key=lambda each: (-each.difference, each.candidate, each.baseline))
    first = ordered[0]
    baselines = {each.baseline for each in comparisons}
    against = first.baseline if len(baselines) == 1 else "its baseline"
    rows = [_difference(each, several=len(baselines) > 1) for each in ordered]
    band = (
        f" Differences in the gray band, up to {margin(first.delta, first.measure)}, are too small to matter."
    )
    return Plot(
        name="differences",
        description=f"Differences in {first.measure}. {'; '.join(row['words'] for row in rows)}",
        caption=f"Difference from {against} in {first.measure.replace('_', ' ')} over "
        f"{plural(first.n, 'question')}, with its {confidence(first)}. Systems to the right of the line "
        f"scored higher than {against}.{band if first.delta else ''}",
        spec=_differences_chart(rows, first),
    )


def _difference(each: Comparison, *, several: bool) -> dict[str, Any]:
    measure = each.measure
    scale = 100 if is_share(measure) else 1
    word, shape, color = _LOOKS[each.verdict]
    shown = gap_with_interval(each, measure)
    low, high = (None, None) if each.identical else (each.ci_low, each.ci_high)
    return {
        "row": f"{each.candidate} vs {each.baseline}" if several else each.candidate,
        "value": scale * each.difference,
        "low": scale * (each.difference if low is None else low),
        "high": scale * (each.difference if high is None else high),
        "shape": shape,
        "color": color,
        "shown": shown if each.identical else f"{shown}\n{word}",
        "words": f"{each.candidate} vs {each.baseline}: {verdict_words(each)}, {shown}; "
        f"{score(each.mean_b, measure)} vs {score(each.mean_a, measure)}; {each.wins} won, "
        f"{each.losses} lost",
    }


def _differences_chart(rows: list[dict[str, Any]], first: Comparison) -> dict[str, Any]:
    import altair

    scale = 100 if is_share(first.measure) else 1
    delta = scale * first.delta
    axis = altair.Axis(
        title=f"difference in {first.measure.replace('_', ' ')}{', points' if scale == 100 else ''}",
        tickCount=5,
        labelExpr="datum.value ? format(datum.value, '+~r') : '0'",
    )
    low, high = min(-delta, *(row["low"] for row in rows)), max(delta, *(row["high"] for row in rows))
    air = 0.05 * (high - low) or 1.0
    x = altair.X("from:Q", scale=altair.Scale(domain=[low - air, high + air], nice=False), axis=axis)
    margins = altair.Chart(altair.Data(values=[{"from": -delta, "to": delta, "zero": 0}]))
    return _rows_chart(
        rows,
        margins.mark_rect(color=MUTED, opacity=0.18, aria=False).encode(x, altair.X2("to:Q")),
        margins.mark_rule(color=INK, opacity=0.55, aria=False).encode(altair.X("zero:Q")),
    )


def _rows_chart(rows: list[dict[str, Any]], *behind: Any) -> dict[str, Any]:
    """Return a chart with a point and its interval below each row's name, and the numbers in a column.

    The layers ``behind`` are drawn first, and define the axis.
    """
    import altair

    y = altair.Y("row:N", sort=[row["row"] for row in rows], axis=None, title=None)
    color = altair.Color("color:N", scale=None)
    base = altair.Chart(altair.Data(values=rows))
    width, down = FULL_WIDTH - _NUMBERS_PIXELS, 9
    text = {"aria": False, "fontSize": FONT, "align": "left", "color": INK}
    name = {"fontWeight": "bold", "limit": width, "baseline": "middle", "dy": -10}
    numbers = {"lineBreak": "\n", "lineHeight": LINE_PIXELS, "baseline": "line-top", "dy": 2 - LINE_PIXELS}
    shape = altair.Shape("shape:N", scale=None)
    layers = [
        base.mark_rule(strokeWidth=2, yOffset=down, y2Offset=down, aria=False).encode(
            altair.X("low:Q"), altair.X2("high:Q"), y, color
        ),
        base.mark_point(filled=True, opacity=1, yOffset=down, size=110).encode(
            altair.X("value:Q"), y, color, shape, altair.Description("words:N")
        ),
        base.mark_text(**text, **name).encode(altair.XValue(0), y, altair.Text("row:N")),
        base.mark_text(**text, **numbers).encode(altair.XValue(width + 2 * _GAP), y, altair.Text("shown:N")),
    ]
    height = altair.Step(_ROW_PIXELS)
    return finished(altair.layer(*behind, *layers).properties(width=width, height=height))


def rates(estimates: Estimates) -> Plot:
    """Plot ``(predictor, measure, estimate)`` entries in percent, one per row."""
    import altair

    rows: list[dict[str, Any]] = []
    for name, measure, each in estimates:
        row, shown = f"{name}, {measure.replace('_', ' ')}", interval(each, "hit@1")
        if each is not None:
            look = {"shape": "circle", "color": ACCENT, "shown": shown, "words": f"{row}: {shown}"}
            rows.append({"row": row, "value": each.value, **ends(each), **look})
    low, high = min(row["low"] for row in rows), max(row["high"] for row in rows)
    scale = altair.Scale(domain=[max(0.0, low - 0.03), min(1.0, high + 0.03)], nice=False)
    x = altair.X("low:Q", scale=scale, axis=altair.Axis(title=None, format=".0%", tickCount=4))
    ruler = altair.Chart(altair.Data(values=[{"low": low}])).mark_rule(opacity=0, aria=False).encode(x)
    counts = dict.fromkeys(each.n for _, _, each in estimates if each is not None)
    return Plot(
        name="rates",
        description=f"Rates with 95% intervals. {'; '.join(row['words'] for row in rows)}",
        caption=f"Rates over {' and '.join(map(str, counts))} questions, with 95% intervals.",
        spec=_rows_chart(rows, ruler),
    )


def frontier(standings: Sequence[Standing], efficient: set[str], measure: str, unit: str) -> Plot:
    """Plot quality against p95 latency, with filled points on the frontier of quality, latency and cost.

    Larger points have a higher LLM cost.
    """
    described = [_standing_words(each, efficient, measure, unit) for each in standings]
    paid = any(each.cost for each in standings)
    return Plot(
        name="frontier",
        description=f"Quality against latency. {'; '.join(described)}",
        caption="Better systems are higher up and further to the left. Filled points are on the frontier: a "
        "system that beats a filled point in quality, p95 or LLM cost is worse in one of the other two."
        + (f" Larger points have more {unit}." if paid else ""),
        spec=_frontier_chart(standings, efficient, described, measure),
    )


def _standing_words(each: Standing, efficient: set[str], measure: str, unit: str) -> str:
    cost = f", {number(each.cost, 0 if each.cost >= 10 else 4)} {unit}" if each.cost else ""
    place = "on the frontier" if each.name in efficient else "not on the frontier"
    return f"{each.name} {score(each.quality, measure)} at {milliseconds(each.p95_ms)} ms{cost}, {place}"


def _frontier_chart(
    standings: Sequence[Standing], efficient: set[str], described: list[str], measure: str
) -> dict[str, Any]:
    import altair

    times, qualities = [max(0.01, each.p95_ms) for each in standings], [each.quality for each in standings]
    spread = max(4.0, max(times) / min(times))
    fastest, slowest = min(times) / spread**0.12, max(times) * spread**0.2
    air = 0.12 * (max(qualities) - min(qualities)) or 0.05
    lowest, highest = max(0.0, min(qualities) - air), min(1.0, max(qualities) + air)
    most = max(each.cost for each in standings) or 1
    areas = [_LEAST_AREA + (_MOST_AREA - _LEAST_AREA) * each.cost / most for each in standings]
    points = [
        (
            WIDTH * log(time / fastest) / log(slowest / fastest),
            HEIGHT * (quality - lowest) / (highest - lowest),
        )
        for time, quality in zip(times, qualities, strict=True)
    ]
    labels = place_labels(
        points, [each.name for each in standings], [sqrt(area / 3.14) + 1 for area in areas]
    )
    rows = [
        {
            "predictor": each.name,
            "quality": each.quality,
            "p95": time,
            "area": area,
            "fill": ACCENT if each.name in efficient else "transparent",
            "stroke": ACCENT if each.name in efficient else MUTED,
            "label_x": fastest * (slowest / fastest) ** (x / WIDTH),
            "label_y": lowest + (highest - lowest) * y / HEIGHT,
            "side": side,
            "far": abs(y - point[1]) > _FAR_PIXELS,
            "words": words,
        }
        for each, time, area, point, (x, y, side), words in zip(
            standings, times, areas, points, labels, described, strict=True
        )
    ]
    across = altair.X(
        "p95:Q",
        title="p95 latency, ms (logarithmic)",
        scale=altair.Scale(type="log", domain=[fastest, slowest], nice=False),
        axis=altair.Axis(values=_ticks(fastest, slowest), format="~r"),
    )
    up = measured("quality", measure, [lowest, highest])
    base = altair.Chart(altair.Data(values=rows))
    lines = (
        base.transform_filter("datum.far")
        .mark_rule(color=MUTED, opacity=0.7, aria=False)
        .encode(across, up, altair.X2("label_x:Q"), altair.Y2("label_y:Q"))
    )
    marks = base.mark_point(opacity=1, strokeWidth=2).encode(
        across,
        up,
        altair.Fill("fill:N", scale=None),
        altair.Stroke("stroke:N", scale=None),
        altair.Size("area:Q", scale=None),
        altair.Description("words:N"),
    )
    return finished(altair.layer(lines, marks, *_names(base)).properties(width=WIDTH, height=HEIGHT))


def tokens(spent: Sequence[tuple[str, float, Estimate]], measure: str) -> Plot:
    """Plot each system's rate, with its interval, against its LLM tokens per question."""
    import altair

    most = 1.3 * max(count for _, count, _ in spent) or 1.0
    least = -0.04 * most
    points = [(WIDTH * (count - least) / (most - least), HEIGHT * each.value) for _, count, each in spent]
    labels = place_labels(points, [name for name, _, _ in spent], [5.0] * len(spent))
    rows = [
        {
            "predictor": name,
            "tokens": count,
            "quality": each.value,
            **ends(each),
            "label_x": least + (most - least) * x / WIDTH,
            "label_y": y / HEIGHT,
            "side": side,
            "words": f"{name} {interval(each, measure)} at {number(count, 0)} tokens",
        }
        for (name, count, each), (x, y, side) in zip(spent, labels, strict=True)
    ]
    across = altair.X(
        "tokens:Q",
        title="LLM tokens per question",
        scale=altair.Scale(domain=[least, most], nice=False),
        axis=altair.Axis(tickCount=4),
    )
    up = measured("quality", measure, [0, 1])
    base = altair.Chart(altair.Data(values=rows))
    bars = base.mark_rule(color=MUTED, aria=False).encode(across, altair.Y("low:Q"), altair.Y2("high:Q"))
    marks = base.mark_point(filled=True, size=_LEAST_AREA, color=ACCENT, opacity=1)
    marks = marks.encode(across, up, altair.Description("words:N"))
    return Plot(
        name="tokens",
        description=f"Quality against LLM tokens. {'; '.join(str(row['words']) for row in rows)}",
        caption="Better systems are higher up and further to the left. The bars are 95% intervals.",
        spec=finished(altair.layer(bars, marks, *_names(base)).properties(width=WIDTH, height=HEIGHT)),
    )


def _names(base: Any) -> list[Any]:
    """Return the marks of the names of points, each at its place on one side of the point."""
    import altair

    text = {"baseline": "middle", "color": INK, "aria": False, "fontSize": FONT, "limit": LABEL_PIXELS}
    return [
        base.transform_filter(f"datum.side === '{side}'")
        .mark_text(align=align, **text)
        .encode(altair.X("label_x:Q"), altair.Y("label_y:Q"), altair.Text("predictor:N"))
        for side, align in (("right", "left"), ("left", "right"))
    ]


def _ticks(fastest: float, slowest: float) -> list[float]:
    """Return axis ticks at 1, 2 and 5 times each power of ten, or fewer ticks if the range is large."""
    powers = range(int(log10(fastest)) - 2, int(log10(slowest)) + 2)
    wide = log10(slowest / fastest)
    steps = (1,) if wide > 4 else (1, 3) if wide > 1.8 else (1, 2, 5)
    ticks = [step * 10.0**power for power in powers for step in steps]
    return [tick for tick in ticks if fastest <= tick <= slowest]


def place_labels(
    points: Sequence[tuple[float, float]], names: Sequence[str], radii: Sequence[float]
) -> list[tuple[float, float, str]]:
    """Place a label beside each point so that no label covers another label or a point.

    A label for which there is no room beside its point is moved up or down. Return the position of the edge
    nearest to the point, in pixels from the lower left corner of the plot, and the label's side.
    """
    taken = [(x - r, x + r, y - r, y + r) for (x, y), r in zip(points, radii, strict=True)]
    found: dict[int, tuple[float, float, str]] = {}
    for place in sorted(range(len(points)), key=lambda each: (-points[each][1], names[each])):
        (x, y), away = points[place], radii[place] + _GAP
        width = min(LABEL_PIXELS, text_pixels(names[place]))
        choices = (
            (edge, y + shift, side, left)
            for step in count(0, 2)
            for shift in (step, -step)
            for edge, side, left in ((x + away, "right", x + away), (x - away, "left", x - away - width))
        )
        for edge, middle, side, left in choices:
            box = (left, left + width, middle - LINE_PIXELS / 2, middle + LINE_PIXELS / 2)
            inside = left >= 0 and left + width <= WIDTH and box[2] >= 0  # below are the numbers of the axis
            if inside and not any(_meet(box, other) for other in taken):
                found[place] = (edge, middle, side)
                taken.append(box)
                break
    return [found[place] for place in range(len(points))]


def _meet(box: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return box[0] < other[1] and other[0] < box[1] and box[2] < other[3] and other[2] < box[3]
