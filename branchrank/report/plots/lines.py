"""The line plots of risk against coverage, and of quality against the values of a swept setting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from branchrank.records import Record
from branchrank.report.blocks import Plot
from branchrank.report.plots.style import LINE_COLORS, LINE_DASHES, NARROW, WIDE, Frame, finished
from branchrank.runs.estimates import Estimate
from branchrank.runs.words import interval, is_share, percent

Curves = Sequence[tuple[str, Sequence[tuple[float, float]]]]


def risks(curves: Curves) -> Plot:
    """Plot every predictor's risk (the share of wrong answers) against its coverage."""
    described = "; ".join(
        f"{name} {percent(points[-1][1])} at {percent(points[-1][0])}" for name, points in curves if points
    )
    return Plot(
        name="risk",
        description=f"Risk against coverage. {described}",
        caption="Share of wrong first hits if only the most confident answers are given.",
        spec=_risk_chart(curves, WIDE),
        narrow=_risk_chart(curves, NARROW),
    )


def _risk_chart(curves: Curves, frame: Frame) -> dict[str, Any]:
    import altair

    rows: list[dict[str, Any]] = [
        {
            "predictor": name,
            "coverage": coverage,
            "risk": risk,
            "words": f"{name}: {percent(risk)} wrong at {percent(coverage)} coverage",
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
        color=_color("predictor", names, frame),
    )
    # Lines also differ in their dashes, since not all readers can distinguish the colors.
    line = base.mark_line(strokeWidth=2, aria=False).encode(strokeDash=_dash("predictor", names))
    told = base.transform_filter(_told(rows)).mark_point(filled=True, size=36, opacity=1)
    chart = altair.layer(line, told.encode(description="words:N"))
    return finished(chart.properties(width=frame.width, height=frame.height), frame)


def _told(rows: Sequence[dict[str, Any]]) -> str:
    """Mark the points at 25%, 50%, 75%, 100% and each curve's end, and return a filter for marked points."""
    last = {row["predictor"]: row["coverage"] for row in rows}
    for row in rows:
        row["told"] = row["coverage"] in (0.25, 0.5, 0.75, 1.0, last[row["predictor"]])
    return "datum.told"


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
        spec=_sweep_chart(points, axis, measure, WIDE),
        narrow=_sweep_chart(points, axis, measure, NARROW),
    )


def _sweep_chart(points: Sequence[Swept], axis: str, measure: str, frame: Frame) -> dict[str, Any]:
    import altair

    found = [_number(each.values[axis]) for each in points]
    numbers = [value for value in found if value is not None]
    numeric = len(numbers) == len(found)
    rows = [
        _sweep_row(each, axis, measure, value if numeric else None)
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
        across = altair.X(
            "value:N", title=axis, sort=order, axis=altair.Axis(labelAngle=0, labelOverlap=True)
        )
    lowest, highest = ("low", "high") if len(others) == 1 else ("mean", "mean")
    low, high = min(row[lowest] for row in rows), max(row[highest] for row in rows)
    air = 0.06 * (high - low) or 0.05
    base = altair.Chart(altair.Data(values=rows)).encode(x=across, color=_color("others", others, frame))
    scale = altair.Scale(domain=[max(0.0, low - air), min(1.0, high + air)], nice=False)
    up = altair.Y(
        "mean:Q",
        title=measure.replace("_", " "),
        scale=scale,
        axis=altair.Axis(format=".0%" if is_share(measure) else ".2f", tickCount=5),
    )
    line = base.mark_line(strokeWidth=2, aria=False).encode(y=up, strokeDash=_dash("others", others))
    bars = base.mark_rule(opacity=0.45, strokeWidth=2, aria=False).encode(
        y=altair.Y("low:Q", scale=scale), y2="high:Q"
    )
    dots = base.mark_point(filled=True, size=60, opacity=1).encode(y=up, description="words:N")
    layers = [line, bars, dots] if len(others) == 1 else [line, dots]
    return finished(altair.layer(*layers).properties(width=frame.width, height=frame.height), frame)


def _sweep_row(each: Swept, axis: str, measure: str, value: float | None) -> dict[str, Any]:
    estimate = each.estimate
    return {
        "value": each.values[axis] if value is None else value,
        "others": ", ".join(f"{key}={text}" for key, text in each.values.items() if key != axis),
        "mean": estimate.value,
        "low": estimate.value if estimate.low is None else estimate.low,
        "high": estimate.value if estimate.high is None else estimate.high,
        "words": f"{each.name}: {interval(estimate, measure)}",
    }


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _color(field: str, names: Sequence[str], frame: Frame) -> Any:
    import altair

    legend = altair.Legend(
        orient="bottom",
        columns=2 if frame.narrow else 4,
        columnPadding=12 if frame.narrow else 24,
        symbolStrokeWidth=3,
        symbolType="stroke",
        labelLimit=frame.label_pixels,
    )
    return altair.Color(
        f"{field}:N",
        title=None,
        sort=list(names),
        scale=altair.Scale(domain=list(names), range=LINE_COLORS),
        legend=legend if len(names) > 1 else None,
    )


def _dash(field: str, names: Sequence[str]) -> Any:
    import altair

    return altair.StrokeDash(
        f"{field}:N",
        title=None,
        sort=list(names),
        scale=altair.Scale(domain=list(names), range=LINE_DASHES),
        legend=None,
    )
