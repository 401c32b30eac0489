"""The forest plot that shows differences from the baseline, with their intervals and the margin delta."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from branchrank.measures.verdicts import Comparison
from branchrank.report.blocks import Plot
from branchrank.report.plots.style import (
    ACCENT,
    BAD,
    GOOD,
    INK,
    MUTED,
    NARROW,
    WIDE,
    Frame,
    finished,
)
from branchrank.runs.words import confidence, gap, gap_between, is_share, margin, plural, score, verdict_words

#: The short name, shape and color for each verdict. The names and shapes are for readers who can't
#: distinguish the colors.
_LOOKS = {
    "better": ("better", "triangle-right", GOOD),
    "worse": ("worse", "triangle-left", BAD),
    "equivalent within delta": ("equivalent", "square", ACCENT),
    "inconclusive": ("inconclusive", "circle", MUTED),
    "too few questions to tell": ("too few questions", "circle", MUTED),
}
_ROW_PIXELS, _NARROW_ROW_PIXELS = 30, 46
#: The extra row height on narrow screens if a name is too long to fit beside its numbers.
_OWN_LINE_PIXELS = 16


def differences(comparisons: Sequence[Comparison]) -> Plot:
    """Plot a run's comparisons, one per row, in descending order of difference."""
    ordered = sorted(comparisons, key=lambda each: (-each.difference, each.candidate, each.baseline))
    first = ordered[0]
    described = "; ".join(_words(each) for each in ordered)
    return Plot(
        name="differences",
        description=f"Differences in {first.measure}. {described}",
        caption=_caption(ordered),
        spec=_chart(ordered, WIDE),
        narrow=_chart(ordered, NARROW),
    )


def _caption(comparisons: Sequence[Comparison]) -> str:
    first = comparisons[0]
    baselines = list(dict.fromkeys(each.baseline for each in comparisons))
    against = baselines[0] if len(baselines) == 1 else "its baseline"
    band = (
        f" Differences in the gray band, up to {margin(first.delta, first.measure)}, are too small to matter."
    )
    measure = first.measure.replace("_", " ")
    return (
        f"Difference from {against} in {measure} over {plural(first.n, 'question')}, with its "
        f"{confidence(first)}. Systems to the right of the line are better than "
        f"{against}.{band if first.delta else ''}"
    )


def _words(each: Comparison) -> str:
    measure = each.measure
    return (
        f"{each.candidate} vs {each.baseline}: {verdict_words(each)}, {gap(each.difference, measure)} "
        f"({gap_between(each.ci_low, each.ci_high, measure)}); {score(each.mean_b, measure)} vs "
        f"{score(each.mean_a, measure)}; {each.wins} won, {each.losses} lost"
    )


def _row(each: Comparison, several: bool) -> dict[str, Any]:
    scale = 100 if is_share(each.measure) else 1
    word, shape, color = _LOOKS[each.verdict]
    low = each.difference if each.ci_low is None else each.ci_low
    high = each.difference if each.ci_high is None else each.ci_high
    shown = f"{gap(each.difference, each.measure)} ({gap_between(each.ci_low, each.ci_high, each.measure)})"
    return {
        "row": f"{each.candidate} vs {each.baseline}" if several else each.candidate,
        "difference": scale * each.difference,
        "low": scale * low,
        "high": scale * high,
        "shape": shape,
        "color": color,
        "shown": shown,
        "verdict": word,
        "short": f"{gap(each.difference, each.measure)} {word}",
        "words": _words(each),
    }


def _chart(comparisons: Sequence[Comparison], frame: Frame) -> dict[str, Any]:
    import altair

    first = comparisons[0]
    several = len({each.baseline for each in comparisons}) > 1
    rows = [_row(each, several) for each in comparisons]
    scale = 100 if is_share(first.measure) else 1
    names = [row["row"] for row in rows]
    width = frame.width - (200 if not frame.narrow else 0)
    step = _NARROW_ROW_PIXELS if frame.narrow else _ROW_PIXELS
    down = 9 if frame.narrow else 0
    own_line = frame.narrow and max(map(frame.text_pixels, names)) >= frame.label_pixels
    if own_line:
        step, down = step + _OWN_LINE_PIXELS, down + _OWN_LINE_PIXELS // 2
    domain = _domain(rows, scale * first.delta)
    axis = None
    if not frame.narrow:
        axis = altair.Axis(
            labelLimit=frame.label_pixels, ticks=False, domain=False, labelPadding=10, title=None
        )
    y = altair.Y("row:N", sort=names, axis=axis, title=None)
    x_scale = altair.Scale(domain=domain, nice=False)
    title = f"difference in {first.measure.replace('_', ' ')}{', points' if scale == 100 else ''}"
    x_axis = altair.Axis(title=title, tickCount=5, labelExpr="datum.value ? format(datum.value, '+~r') : '0'")
    data = altair.Data(values=rows)
    base = altair.Chart(data)
    margins = altair.Data(values=[{"from": -scale * first.delta, "to": scale * first.delta, "zero": 0}])
    layers = [
        altair.Chart(margins)
        .mark_rect(color=MUTED, opacity=0.18, aria=False)
        .encode(x=altair.X("from:Q", scale=x_scale, axis=x_axis), x2="to:Q"),
        altair.Chart(margins).mark_rule(color=INK, opacity=0.55, aria=False).encode(x="zero:Q"),
        base.mark_rule(strokeWidth=2, yOffset=down, y2Offset=down, aria=False).encode(
            x="low:Q", x2="high:Q", y=y, color=altair.Color("color:N", scale=None)
        ),
        base.mark_point(filled=True, opacity=1, yOffset=down, size=110).encode(
            x="difference:Q",
            y=y,
            color=altair.Color("color:N", scale=None),
            shape=altair.Shape("shape:N", scale=None),
            description="words:N",
        ),
        *_texts(base, y, frame, width, own_line=own_line),
    ]
    return finished(altair.layer(*layers).properties(width=width, height=altair.Step(step)), frame)


def _texts(base: Any, y: Any, frame: Frame, width: int, *, own_line: bool) -> list[Any]:
    """Return layers that show the numbers and verdict beside each row, or above the row on narrow screens."""
    import altair

    looks = {"aria": False, "fontSize": frame.font, "baseline": "middle"}
    if frame.narrow:
        up = _OWN_LINE_PIXELS // 2 if own_line else 0
        limit = width if own_line else frame.label_pixels
        name = base.mark_text(**looks, align="left", dy=-10 - up, color=INK, fontWeight="bold", limit=limit)
        short = base.mark_text(**looks, align="right", dy=-10 + up, color=INK)
        return [
            name.encode(x=altair.value(0), y=y, text="row:N"),
            short.encode(x=altair.value(width), y=y, text="short:N"),
        ]
    shown = base.mark_text(**looks, align="left", color=INK).encode(
        x=altair.value(width + 14), y=y, text="shown:N"
    )
    verdict = base.mark_text(**looks, align="left", color=INK, fontWeight="bold").encode(
        x=altair.value(width + 176), y=y, text="verdict:N"
    )
    return [shown, verdict]


def _domain(rows: Sequence[dict[str, Any]], delta: float) -> list[float]:
    """Return the x range that includes all intervals, zero and the margin, with some space at both ends."""
    low = min(-delta, *(row["low"] for row in rows))
    high = max(delta, *(row["high"] for row in rows))
    air = 0.05 * (high - low) or 1.0
    return [low - air, high + air]
