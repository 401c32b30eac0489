"""The plot of hit rates and their intervals, with a panel for each measure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from branchrank.report.blocks import Plot
from branchrank.report.plots.style import ACCENT, MUTED, NARROW, WIDE, Frame, finished
from branchrank.runs.estimates import Estimate
from branchrank.runs.words import interval

Estimates = Sequence[tuple[str, str, Estimate | None]]


def rates(estimates: Estimates) -> Plot:
    """Plot ``(predictor, panel, estimate)`` entries in percent, in one panel for each measure."""
    described = "; ".join(
        f"{name} {panel.replace('_', ' ')} {interval(each, 'hit@')}" for name, panel, each in estimates
    )
    counts = dict.fromkeys(each.n for _, _, each in estimates if each is not None)
    return Plot(
        name="rates",
        description=f"Rates with 95% intervals. {described}",
        caption=f"Rates over {' and '.join(map(str, counts))} questions, with 95% intervals.",
        spec=_chart(estimates, WIDE),
        narrow=_chart(estimates, NARROW),
    )


def _chart(estimates: Estimates, frame: Frame) -> dict[str, Any]:
    import altair

    rows: list[dict[str, Any]] = [
        {
            "predictor": name,
            "panel": panel.replace("_", " "),
            "rate": each.value,
            "low": each.value if each.low is None else each.low,
            "high": each.value if each.high is None else each.high,
            "words": f"{name}, {panel.replace('_', ' ')}: {interval(each, 'hit@')}",
        }
        for name, panel, each in estimates
        if each is not None
    ]
    names = list(dict.fromkeys(name for name, _, _ in estimates))
    panels = list(dict.fromkeys(panel.replace("_", " ") for _, panel, _ in estimates))
    low, high = min((row["low"] for row in rows), default=0), max((row["high"] for row in rows), default=1)
    scale = altair.Scale(domain=[max(0.0, low - 0.03), min(1.0, high + 0.03)], nice=False)
    axis = altair.Axis(format=".0%", tickCount=4)
    labels = altair.Axis(labelLimit=frame.label_pixels, ticks=False, domain=False, labelPadding=8)
    base = altair.Chart().encode(y=altair.Y("predictor:N", sort=names, title=None, axis=labels))
    whiskers = base.mark_rule(strokeWidth=2, color=MUTED, aria=False).encode(
        x=altair.X("low:Q", scale=scale, axis=axis, title=None), x2="high:Q"
    )
    dots = base.mark_point(filled=True, size=80, color=ACCENT, opacity=1).encode(
        x="rate:Q", description="words:N"
    )
    columns = 1 if frame.narrow else min(4, len(panels))
    width = 190 if frame.narrow else frame.width / columns - 20
    chart = (
        altair.layer(whiskers, dots, data=altair.Data(values=rows))
        .properties(width=width, height=altair.Step(26))
        .facet(facet=altair.Facet("panel:N", sort=panels, title=None), columns=columns)
    )
    return finished(chart, frame)
