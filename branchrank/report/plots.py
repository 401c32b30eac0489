"""The plots of a report: Vega-Lite specifications through Altair, drawn as SVG by vl-convert.

Text and lines take the colour of the page around them, so that one drawing serves light and dark pages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.metadata import version
from math import log
from typing import TYPE_CHECKING, Any

from branchrank.measures.frontier import Standing
from branchrank.printable import safe
from branchrank.report.blocks import Plot
from branchrank.runs.estimates import Estimate
from branchrank.runs.words import interval, milliseconds, percent

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
_LINE_COLOURS = ["#2f7fb8", "#e0803a", "#2a9d8f", "#b5473c", "#8d6cab", "#9d755d", "#c9a227", "#7a8b99"]
_LINE_DASHES = [[1, 0], [6, 2], [2, 2], [8, 2, 2, 2], [4, 4], [10, 3], [1, 3], [6, 2, 1, 2, 1, 2]]
_LABEL_PIXELS = 220
_LINE_PIXELS = 14
_WIDTH, _HEIGHT = 480, 260


def rates(estimates: Sequence[tuple[str, str, Estimate | None]]) -> Plot:
    """Every predictor's hit rates with their intervals, one panel for each measure."""
    import altair

    data = [
        {
            "predictor": name,
            "measure": measure.replace("_", " "),
            "rate": e.value,
            "low": e.value if e.low is None else e.low,
            "high": e.value if e.high is None else e.high,
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

    data, speeds, qualities = _standing_data(standings, efficient)
    quality = altair.Scale(domain=qualities)
    base = altair.Chart(altair.Data(values=data)).encode(
        x=altair.X(
            "p95:Q",
            title="p95 of the latency in ms, logarithmic",
            scale=altair.Scale(type="log", domain=speeds),
            axis=altair.Axis(tickCount=6, format="~r"),
        )
    )
    dots = base.mark_point(filled=True, opacity=0.9).encode(
        y=altair.Y(
            "quality:Q",
            title=measure.replace("_", " "),
            scale=quality,
            axis=altair.Axis(format="%", tickCount=5),
        ),
        color=altair.Color(
            "place:N",
            title=None,
            scale=altair.Scale(domain=["on the frontier", "dominated"], range=[_ACCENT, _MUTED]),
            legend=altair.Legend(orient="top", columnPadding=24),
        ),
        size=altair.Size(
            "cost:Q",
            legend=None,
            scale=altair.Scale(domain=[0, max(each.cost for each in standings) or 1], range=[60, 500]),
        ),
    )
    labels = base.mark_text(align="left", dx=14, color=_INK, limit=_LABEL_PIXELS, fontSize=12).encode(
        y=altair.Y("label:Q", scale=quality), text="predictor:N"
    )
    described = "; ".join(
        f"{each.name} {percent(each.quality)} at {milliseconds(each.p95_ms)} ms" for each in standings
    )
    chart = altair.layer(dots, labels).properties(width=_WIDTH, height=_HEIGHT)
    return Plot(name="frontier", description=f"Quality against latency. {described}", spec=_spec(chart))


def _standing_data(
    standings: Sequence[Standing], efficient: set[str]
) -> tuple[list[dict[str, Any]], list[float], list[float]]:
    """The points with the heights of their labels, and the domains of p95 and quality."""
    times, qualities = [each.p95_ms for each in standings], [each.quality for each in standings]
    fastest, slowest = max(0.01, min(times)) / 2, max(0.01, *times) * 4
    lowest, highest = max(0.0, min(qualities) - 0.1), min(1.0, max(qualities) + 0.1)
    pixels = [
        (
            _WIDTH * log(max(fastest, each.p95_ms) / fastest) / log(slowest / fastest),
            _HEIGHT * (each.quality - lowest) / (highest - lowest),
        )
        for each in standings
    ]
    heights = _label_heights(pixels, [each.name for each in standings])
    data = [
        {
            "predictor": each.name,
            "quality": each.quality,
            "p95": each.p95_ms,
            "cost": each.cost,
            "place": "on the frontier" if each.name in efficient else "dominated",
            "label": lowest + (highest - lowest) * height / _HEIGHT,
        }
        for each, height in zip(standings, heights, strict=True)
    ]
    return data, [fastest, slowest], [lowest, highest]


def _label_heights(points: Sequence[tuple[float, float]], names: Sequence[str]) -> list[float]:
    """The height in pixels of each point's label: as near to the point as it covers no label or point."""
    taken = [(x - 6, x + 6, y) for x, y in points]
    found: dict[int, float] = {}
    for number in sorted(range(len(points)), key=lambda each: (-points[each][1], names[each])):
        x, y = points[number]
        left, right = x + 8, x + 14 + min(_LABEL_PIXELS, 7 * len(names[number]))
        found[number] = next(
            y + step * sign
            for step in range(0, 1000 * _LINE_PIXELS, 3)
            for sign in (-1, 1)
            if all(
                right < start or end < left or abs(y + step * sign - height) >= _LINE_PIXELS
                for start, end, height in taken
            )
        )
        taken.append((left, right, found[number]))
    return [found[number] for number in range(len(points))]


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


def risks(curves: Sequence[tuple[str, Sequence[tuple[float, float]]]]) -> Plot:
    """Every predictor's risk against its coverage, by name."""
    import altair

    data = [
        {"predictor": name, "coverage": coverage, "risk": risk}
        for name, points in curves
        for coverage, risk in points
    ]
    names = [name for name, _ in curves]
    looks = {"sort": names, "title": None}
    chart = (
        altair.Chart(altair.Data(values=data))
        .mark_line(strokeWidth=2)
        .encode(
            x=altair.X(
                "coverage:Q",
                title="coverage: share of the questions answered, most confident first",
                scale=altair.Scale(domain=[0, 1]),
                axis=altair.Axis(format="%", tickCount=5),
            ),
            y=altair.Y(
                "risk:Q",
                title="risk: share of them wrong",
                scale=altair.Scale(domain=[0, 1]),
                axis=altair.Axis(format="%", tickCount=5),
            ),
            color=altair.Color(
                "predictor:N",
                scale=altair.Scale(domain=names, range=_LINE_COLOURS),
                legend=altair.Legend(orient="bottom", columns=4, columnPadding=24, symbolStrokeWidth=3),
                **looks,
            ),
            # Colour alone tells few lines apart, and none to some readers.
            strokeDash=altair.StrokeDash(
                "predictor:N", scale=altair.Scale(domain=names, range=_LINE_DASHES), legend=None, **looks
            ),
        )
        .properties(width=_WIDTH, height=_HEIGHT)
    )
    described = "; ".join(
        f"{name} {percent(points[-1][1])} at {percent(points[-1][0])}" for name, points in curves if points
    )
    return Plot(name="risk", description=f"Risk against coverage. {described}", spec=_spec(chart))


def _outcome_colour(outcome: str) -> str:
    if outcome == "failed":
        return _FAILED_COLOUR
    return _LOSS_COLOURS.get(outcome.removeprefix("lost at "), _FOUND_COLOUR)


def _spec(chart: TopLevelMixin) -> dict[str, Any]:
    quiet = {"labelColor": _INK, "titleColor": _INK, "domainColor": _MUTED, "tickColor": _MUTED}
    spec: dict[str, Any] = _printable(chart.to_dict())
    spec["background"] = None
    spec["config"] = {
        "font": "sans-serif",
        "axis": {**quiet, "gridColor": _MUTED, "gridOpacity": 0.25, "labelFontSize": 12, "titleFontSize": 12},
        "header": {"labelColor": _INK, "labelFontSize": 12},
        "legend": {"labelColor": _INK, "titleColor": _INK, "labelFontSize": 12, "labelLimit": _LABEL_PIXELS},
        "view": {"stroke": None},
    }
    return spec


def _printable(value: Any) -> Any:
    """The value with every text in it made safe: vl-convert ends the process at a control character."""
    if isinstance(value, str):
        return safe(value)
    if isinstance(value, dict):
        return {key: _printable(each) for key, each in value.items()}
    return [_printable(each) for each in value] if isinstance(value, list) else value


def draw(plot: Plot) -> str:
    """The plot as SVG whose text takes the colour of what surrounds it."""
    import vl_convert

    svg: str = vl_convert.vegalite_to_svg(plot.spec)
    return _rounded(svg.replace(_INK, "currentColor"))


def _rounded(svg: str) -> str:
    """Coordinates to a hundredth of a pixel, which is all that can be seen."""
    return re.sub(r"(\d\.\d\d)\d+", r"\1", svg)


_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_STYLE = "<style>svg{color:#1f2328}@media(prefers-color-scheme:dark){svg{color:#e6edf3}}</style>"


def drawn_by() -> str:
    """What draws, with its versions: another version may draw the same figures a little differently."""
    return f"<!-- altair {version('altair')}, vl-convert {version('vl-convert-python')} -->"


def standalone(svg: str) -> str:
    """A drawing as a file of its own, dark where the reader's system is."""
    head, _, rest = svg.partition(">")
    return f"{head}>{_STYLE}{rest}\n{drawn_by()}\n"


def drawn_elsewhere(file: str) -> str | None:
    """The drawing in such a file if it says that another version drew it, else ``None``."""
    svg, _, drawer = file.rstrip("\n").rpartition("\n")
    if drawer == drawn_by() or not drawer.startswith("<!-- altair "):
        return None
    return svg.replace(_STYLE, "", 1)


def same_to_the_eye(svg: str, other: str) -> bool:
    """Whether two drawings have the same marks and texts, no coordinate a pixel or more apart."""
    if _NUMBER.split(svg) != _NUMBER.split(other):
        return False
    pairs = zip(_NUMBER.findall(svg), _NUMBER.findall(other), strict=True)
    return all(abs(float(number) - float(drawn)) < 1 for number, drawn in pairs)
