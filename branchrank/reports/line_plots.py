"""The plots of risk against coverage, of quality against a swept setting, and of lost gold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from branchrank.core.records import Record
from branchrank.reports.blocks import Plot
from branchrank.reports.drawing import FULL_WIDTH, HEIGHT, WIDTH, ends, finished, legend, measured
from branchrank.runs.scores import Estimate
from branchrank.runs.words import interval, percent

_LINE_COLORS = ["#2f7fb8", "#d9772f", "#23917f", "#d0503f", "#8d6cab", "#9d755d", "#a88717", "#7c8490"]
_LINE_DASHES = [[1, 0], [6, 2], [2, 2], [8, 2, 2, 2], [4, 4], [10, 3], [1, 3], [6, 2, 1, 2, 1, 2]]
#: The color for each stage that loses gold, and for failed queries.
_FATE_COLORS = {
    "retrieval": "#b5473c",
    "mapping": "#8d6cab",
    "tools": "#7f3b3b",
    "citation": "#b08a2e",
    "citation order": "#5a8f6b",
    "fusion": "#e0803a",
    "cap": "#c9a227",
    "group": "#7a8b99",
    "rerank": "#4c78a8",
    "passage": "#9d755d",
    "passage order": "#c77fa3",
    "failed": "#5d636c",
}
_FOUND_COLOR = "#2a9d8f"
#: The coverages at which every curve has a point with a description, besides its end.
SHOWN_COVERAGES = (0.25, 0.5, 0.75, 1.0)

Counts = Sequence[tuple[str, str, int]]
Curves = Sequence[tuple[str, Sequence[tuple[float, float]]]]


def risks(curves: Curves) -> Plot:
    """Plot every predictor's risk (the share of wrong answers) against its coverage."""
    import altair

    rows: list[dict[str, Any]] = [
        {
            "predictor": name,
            "coverage": coverage,
            "risk": risk,
            "words": f"{name}: {percent(risk)} wrong at {percent(coverage)} coverage",
            "told": coverage in (*SHOWN_COVERAGES, points[-1][0]),
        }
        for name, points in curves
        for coverage, risk in points
    ]
    names = [name for name, _ in curves]
    highest = max([row["risk"] for row in rows], default=1.0)
    base = altair.Chart(altair.Data(values=rows)).encode(
        x=altair.X(
            "coverage:Q",
            title="coverage: share answered, most confident first",
            scale=altair.Scale(domain=[0, 1]),
            axis=altair.Axis(format="%", tickCount=5),
        ),
        y=altair.Y(
            "risk:Q",
            title="risk: share of wrong answers",
            scale=altair.Scale(domain=[0, min(1.0, 1.08 * highest) or 1.0], nice=False),
            axis=altair.Axis(format=".0%", tickCount=5),
        ),
        color=_color("predictor", names),
    )
    # Lines also differ in their dashes, since not all readers can distinguish the colors.
    line = base.mark_line(strokeWidth=2, aria=False).encode(strokeDash=_dash("predictor", names))
    told = base.transform_filter("datum.told").mark_point(filled=True, size=36, opacity=1)
    chart = altair.layer(line, told.encode(altair.Description("words:N")))
    described = "; ".join(
        f"{name} {percent(points[-1][1])} at {percent(points[-1][0])}" for name, points in curves if points
    )
    return Plot(
        name="risk",
        description=f"Risk against coverage. {described}",
        caption="Share of wrong first hits if only the most confident answers are given.",
        spec=finished(chart.properties(width=WIDTH, height=HEIGHT)),
    )


class Swept(Record, frozen=True, kw_only=True):
    """One system of a sweep, with the swept settings and the score."""

    name: str
    values: dict[str, str]
    estimate: Estimate


def sweep(title: str, points: Sequence[Swept], axis: str, measure: str, number: int) -> Plot:
    """Plot quality against the ``axis`` setting, with a line for each combination of the other settings."""
    described = "; ".join(f"{each.name} {interval(each.estimate, measure)}" for each in points)
    return Plot(
        name=f"sweep-{number}",
        description=f"{measure} over {axis} of {title}. {described}",
        caption=f"{measure.replace('_', ' ')} of {title} for each value of {axis}; each point is the mean of "
        f"{points[0].estimate.n} questions."
        + (" The bars are 95% intervals." if len(points[0].values) == 1 else ""),
        spec=_sweep_chart(points, axis, measure),
    )


def _sweep_chart(points: Sequence[Swept], axis: str, measure: str) -> dict[str, Any]:
    import altair

    found = [_number(each.values[axis]) for each in points]
    numbers = [value for value in found if value is not None]
    numeric = len(numbers) == len(found)
    rows: list[dict[str, Any]] = [
        {
            "value": value if numeric else each.values[axis],
            "others": ", ".join(f"{key}={text}" for key, text in each.values.items() if key != axis),
            "mean": each.estimate.value,
            **ends(each.estimate),
            "words": f"{each.name}: {interval(each.estimate, measure)}",
        }
        for each, value in zip(points, found, strict=True)
    ]
    others = list(dict.fromkeys(row["others"] for row in rows))
    if numeric:
        wide = min(numbers) > 0 and max(numbers) / min(numbers) >= 20
        ticks = sorted(set(numbers))
        across = altair.X(
            "value:Q",
            title=axis,
            scale=altair.Scale(type="log" if wide else "linear", zero=False, nice=False, padding=16),
            axis=altair.Axis(values=ticks, labelExpr="datum.value", labelOverlap=True, grid=False),
        )
    else:
        order = list(dict.fromkeys(row["value"] for row in rows))
        # The parts of a name such as `langchain:MarkdownTextSplitter` stand below each other.
        labels = altair.Axis(labelAngle=0, labelOverlap=True, labelExpr="split(datum.label, ':')")
        across = altair.X("value:N", title=axis, sort=order, axis=labels)
    single = len(others) == 1
    heights = [row[end] for row in rows for end in (("low", "high") if single else ("mean",))]
    air = 0.06 * (max(heights) - min(heights)) or 0.05
    domain = [max(0.0, min(heights) - air), min(1.0, max(heights) + air)]
    base = altair.Chart(altair.Data(values=rows)).encode(x=across, color=_color("others", others))
    up = measured("mean", measure, domain)
    line = base.mark_line(strokeWidth=2, aria=False).encode(y=up, strokeDash=_dash("others", others))
    bars = base.mark_rule(opacity=0.45, strokeWidth=2, aria=False).encode(
        altair.Y("low:Q"), altair.Y2("high:Q")
    )
    dots = base.mark_point(filled=True, size=60, opacity=1).encode(up, altair.Description("words:N"))
    layers = [line, bars, dots] if single else [line, dots]
    return finished(altair.layer(*layers).properties(width=WIDTH, height=HEIGHT))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _color(field: str, names: Sequence[str]) -> Any:
    import altair

    strokes = legend(symbolStrokeWidth=3, symbolType="stroke")
    return altair.Color(
        f"{field}:N",
        title=None,
        sort=list(names),
        scale=altair.Scale(domain=list(names), range=_LINE_COLORS),
        legend=strokes if len(names) > 1 else None,
    )


def _dash(field: str, names: Sequence[str]) -> Any:
    import altair

    scale = altair.Scale(domain=list(names), range=_LINE_DASHES)
    return altair.StrokeDash(f"{field}:N", title=None, sort=list(names), scale=scale, legend=None)


def losses(counts: Counts) -> Plot:
    """Plot, for each predictor, the share of answers whose gold was lost at each stage."""
    import altair

    outcomes = list(dict.fromkeys(outcome for _, outcome, _ in counts))
    totals = Counter[str]()
    for name, _, count in counts:
        totals[name] += count
    rows = [
        {
            "predictor": name,
            "outcome": outcome,
            "answers": count,
            "place": outcomes.index(outcome),
            "words": f"{name}: {outcome}, {count} of {totals[name]} ({percent(count / (totals[name] or 1))})",
        }
        for name, outcome, count in counts
        if count
    ]
    # Each name is above its bar, so that long names fit.
    names = altair.Axis(
        ticks=False, domain=False, labelAlign="left", labelPadding=0, labelOffset=-10, labelLimit=FULL_WIDTH
    )
    colors = [
        _FATE_COLORS.get(outcome.removeprefix("lost at ").partition(" (")[0], _FOUND_COLOR)
        for outcome in outcomes
    ]
    bars = (
        altair.Chart(altair.Data(values=rows))
        .mark_bar(height=14, yOffset=8)
        .encode(
            y=altair.Y("predictor:N", sort=list(totals), title=None, axis=names),
            x=altair.X(
                "answers:Q",
                stack="normalize",
                title=None,
                axis=altair.Axis(format="%", tickCount=5, grid=False),
            ),
            color=altair.Color(
                "outcome:N",
                title=None,
                sort=outcomes,
                scale=altair.Scale(domain=outcomes, range=colors),
                legend=legend(),
            ),
            order=altair.Order("place:Q"),
            description=altair.Description("words:N"),
        )
    )
    described = "; ".join(f"{name} {outcome} {count}" for name, outcome, count in counts if count)
    return Plot(
        name="losses",
        description=f"Stages at which the gold was lost. {described}",
        caption="Share of the answers, by the stage at which the gold was lost.",
        spec=finished(bars.properties(width=FULL_WIDTH - 10, height=altair.Step(40))),
    )
