"""The plot of lost gold, with one bar for each system."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from branchrank.report.blocks import Plot
from branchrank.report.plots.style import NARROW, WIDE, Frame, finished
from branchrank.runs.words import percent

_LOSS_COLORS = {
    "retrieval": "#b5473c",
    "mapping": "#8d6cab",
    "fusion": "#e0803a",
    "cap": "#c9a227",
    "group": "#7a8b99",
    "rerank": "#4c78a8",
    "passage": "#9d755d",
}
_FAILED_COLOR = "#5d636c"
_FOUND_COLOR = "#2a9d8f"

Counts = Sequence[tuple[str, str, int]]


def losses(counts: Counts) -> Plot:
    """Plot, for each predictor, the share of answers whose gold was lost at each stage."""
    described = "; ".join(f"{name} {outcome} {count}" for name, outcome, count in counts if count)
    return Plot(
        name="losses",
        description=f"Stages at which the gold was lost. {described}",
        caption="Share of the answers, by the stage at which the gold was lost.",
        spec=_chart(counts, WIDE),
        narrow=_chart(counts, NARROW),
    )


def _chart(counts: Counts, frame: Frame) -> dict[str, Any]:
    import altair

    outcomes = list(dict.fromkeys(outcome for _, outcome, _ in counts))
    totals: dict[str, int] = {}
    for name, _, count in counts:
        totals[name] = totals.get(name, 0) + count
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
    bars = (
        altair.Chart(altair.Data(values=rows))
        .mark_bar(height=14 if frame.narrow else 20, yOffset=8 if frame.narrow else 0)
        .encode(
            y=altair.Y("predictor:N", sort=list(totals), title=None, axis=_name_axis(frame)),
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
                scale=altair.Scale(domain=outcomes, range=[_outcome_color(each) for each in outcomes]),
                legend=altair.Legend(
                    orient="bottom",
                    columns=2 if frame.narrow else 4,
                    columnPadding=12 if frame.narrow else 24,
                    labelLimit=frame.label_pixels,
                ),
            ),
            order="place:Q",
            description="words:N",
        )
    )
    step = 40 if frame.narrow else 30
    return finished(bars.properties(width=frame.width, height=altair.Step(step)), frame)


def _name_axis(frame: Frame) -> Any:
    """Return the axis of predictor names, which are above the bars on narrow screens."""
    import altair

    looks: dict[str, Any] = {"ticks": False, "domain": False, "labelFontSize": frame.font}
    if not frame.narrow:
        return altair.Axis(**looks, labelLimit=frame.label_pixels, labelPadding=10)
    return altair.Axis(**looks, labelLimit=frame.width, labelAlign="left", labelPadding=0, labelOffset=-10)


def _outcome_color(outcome: str) -> str:
    if outcome == "failed":
        return _FAILED_COLOR
    return _LOSS_COLORS.get(outcome.removeprefix("lost at "), _FOUND_COLOR)
