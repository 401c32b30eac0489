"""The plots of a report: Vega-Lite specifications through Altair, drawn as SVG by vl-convert.

Text and lines take the colour of the page around them, so that one drawing serves light and dark pages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from branchrank.bench.comparisons import Estimate
from branchrank.measures.frontier import Standing
from branchrank.report.blocks import Plot
from branchrank.report.words import interval, milliseconds, percent

if TYPE_CHECKING:
    from altair import TopLevelMixin

#: Stands for the page's own text colour until the drawing is done: Altair knows no such colour.
_INK = "#010203"
_ACCENT = "#2f7fb8"
_MUTED = "#8a8f98"
_LOSS_COLOURS = {
    "retrieval": "#b5473c",
    "mapping": "#8d6cab",
    "fusion": "#e0803a",
    "cap": "#c9a227",
    "group": "#7a8b99",
    "rerank": "#4c78a8",
    "passage": "#9d755d",
}
_FAILED_COLOUR = "#4a4f57"
_FOUND_COLOUR = "#2a9d8f"
_LABEL_PIXELS = 220
#: Predictors up to which all have their name in the plot; of more, those on the frontier do.
_ALL_NAMED = 6


def rates(estimates: Sequence[tuple[str, str, Estimate | None]]) -> Plot:
    """Every predictor's hit rates with their intervals, one panel for each measure."""
    import altair

    data = [
        {
            "predictor": name,
            "measure": measure.replace("_", " "),
            "rate": e.value,
            "low": e.low,
            "high": e.high,
        }
        for name, measure, e in estimates
        if e is not None
    ]
    order = list(dict.fromkeys(name for name, _, _ in estimates))
    panels = list(dict.fromkeys(measure.replace("_", " ") for _, measure, _ in estimates))
    base = altair.Chart().encode(
        y=altair.Y("predictor:N", sort=order, title=None, axis=altair.Axis(labelLimit=_LABEL_PIXELS))
    )
    scale = altair.Scale(domain=[0, 1])
    axis = altair.Axis(format="%", tickCount=3)
    whiskers = base.mark_rule(strokeWidth=2, color=_MUTED).encode(
        x=altair.X("low:Q", scale=scale, axis=axis, title=None), x2="high:Q"
    )
    dots = base.mark_point(filled=True, size=70, color=_ACCENT, opacity=1).encode(x="rate:Q")
    chart = (
        altair.layer(whiskers, dots, data=altair.Data(values=data))
        .properties(width=125, height=altair.Step(22))
        .facet(column=altair.Column("measure:N", sort=panels, title=None))
    )
    described = "; ".join(f"{n} {m.replace('_', ' ')} {interval(e)}" for n, m, e in estimates)
    return Plot(name="rates", description=f"Rates with 95% intervals. {described}", spec=_spec(chart))


def frontier(standings: Sequence[Standing], efficient: set[str], measure: str) -> Plot:
    """Quality against p95; larger dots cost more; filled ones are on the frontier."""
    import altair

    data = [
        {
            "predictor": each.name,
            "quality": each.quality,
            "p95": each.p95_ms,
            "cost": each.cost,
            "place": "on the frontier" if each.name in efficient else "dominated",
            "above": place % 2 == 0,
            "name": each.name if each.name in efficient or len(standings) <= _ALL_NAMED else "",
        }
        for place, each in enumerate(sorted(standings, key=lambda each: (-each.quality, each.name)))
    ]
    times = [each.p95_ms for each in standings]
    rates_shown = [each.quality for each in standings]
    base = altair.Chart(altair.Data(values=data)).encode(
        x=altair.X(
            "p95:Q",
            title="p95 of the latency in ms, logarithmic",
            scale=altair.Scale(type="log", domain=[max(0.01, min(times)) / 2, max(0.01, *times) * 4]),
            axis=altair.Axis(tickCount=6, format="~r"),
        ),
        y=altair.Y(
            "quality:Q",
            title=measure.replace("_", " "),
            scale=altair.Scale(domain=[max(0.0, min(rates_shown) - 0.1), min(1.0, max(rates_shown) + 0.1)]),
            axis=altair.Axis(format="%", tickCount=5),
        ),
    )
    dots = base.mark_point(filled=True, opacity=0.9).encode(
        color=altair.Color(
            "place:N",
            title=None,
            scale=altair.Scale(domain=["on the frontier", "dominated"], range=[_ACCENT, _MUTED]),
            legend=altair.Legend(orient="top", columnPadding=24),
        ),
        size=altair.Size("cost:Q", legend=None, scale=altair.Scale(range=[80, 500])),
    )
    # Alternately above and below, by quality, so that the names of close neighbours don't collide.
    labels = [
        base.transform_filter(altair.datum.above == above)
        .mark_text(align="left", dx=12, dy=-8 if above else 8, color=_INK, limit=_LABEL_PIXELS, fontSize=12)
        .encode(text="name:N")
        for above in (True, False)
    ]
    described = "; ".join(
        f"{each.name} {percent(each.quality)} at {milliseconds(each.p95_ms)} ms" for each in standings
    )
    chart = altair.layer(dots, *labels).properties(width=480, height=260)
    return Plot(name="frontier", description=f"Quality against latency. {described}", spec=_spec(chart))


def losses(counts: Sequence[tuple[str, str, int]]) -> Plot:
    """Every predictor's answers by where the gold was lost, as one bar of shares."""
    import altair

    outcomes = list(dict.fromkeys(outcome for _, outcome, _ in counts))
    colours = [_outcome_colour(outcome) for outcome in outcomes]
    data = [
        {"predictor": name, "outcome": outcome, "answers": count, "place": outcomes.index(outcome)}
        for name, outcome, count in counts
    ]
    order = list(dict.fromkeys(name for name, _, _ in counts))
    chart = (
        altair.Chart(altair.Data(values=data))
        .mark_bar()
        .encode(
            y=altair.Y("predictor:N", sort=order, title=None, axis=altair.Axis(labelLimit=_LABEL_PIXELS)),
            x=altair.X("answers:Q", stack="normalize", title=None, axis=altair.Axis(format="%", tickCount=5)),
            color=altair.Color(
                "outcome:N",
                title=None,
                sort=outcomes,
                scale=altair.Scale(domain=outcomes, range=colours),
                legend=altair.Legend(orient="bottom", columns=4, columnPadding=24),
            ),
            order="place:Q",
        )
        .properties(width=520, height=altair.Step(26))
    )
    described = "; ".join(f"{name} {outcome} {count}" for name, outcome, count in counts if count)
    return Plot(name="losses", description=f"Where the gold was lost. {described}", spec=_spec(chart))


def _outcome_colour(outcome: str) -> str:
    if outcome == "failed":
        return _FAILED_COLOUR
    return _LOSS_COLOURS.get(outcome.removeprefix("lost at "), _FOUND_COLOUR)


def _spec(chart: TopLevelMixin) -> dict[str, Any]:
    quiet = {"labelColor": _INK, "titleColor": _INK, "domainColor": _MUTED, "tickColor": _MUTED}
    spec: dict[str, Any] = chart.to_dict()
    spec["background"] = None
    spec["config"] = {
        "font": "sans-serif",
        "axis": {**quiet, "gridColor": _MUTED, "gridOpacity": 0.25, "labelFontSize": 12, "titleFontSize": 12},
        "header": {"labelColor": _INK, "labelFontSize": 12},
        "legend": {"labelColor": _INK, "titleColor": _INK, "labelFontSize": 12, "labelLimit": _LABEL_PIXELS},
        "view": {"stroke": None},
    }
    return spec


def draw(plot: Plot) -> str:
    """The plot as SVG whose text takes the colour of what surrounds it."""
    import vl_convert

    svg: str = vl_convert.vegalite_to_svg(plot.spec)
    return _rounded(svg.replace(_INK, "currentColor"))


def _rounded(svg: str) -> str:
    """Coordinates to a hundredth of a pixel, which is all that can be seen."""
    return re.sub(r"(\d\.\d\d)\d+", r"\1", svg)


def standalone(svg: str) -> str:
    """A drawing as a file of its own, dark where the reader's system is."""
    style = "<style>svg{color:#1f2328}@media(prefers-color-scheme:dark){svg{color:#e6edf3}}</style>"
    head, _, rest = svg.partition(">")
    return f"{head}>{style}{rest}\n"
