"""Draw plots as SVG with vl-convert.

1. One layout serves wide and narrow screens: a drawing is about as wide as a telephone's screen, and is shown
   larger where there is room.
2. Text and lines are drawn in the page's text color, so that the same SVG works on light and dark pages.
3. Each plotted value has a label for screen readers (``aria-label``), which the page's script also shows as a
   tooltip.
4. With the same versions of Altair and vl-convert, the same data always give the same SVG. ``branchrank
   verify`` therefore checks a run's plots by drawing them again, if the versions are the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from branchrank.core.io.printable import safe
from branchrank.reports.blocks import Plot
from branchrank.runs.scores import Estimate
from branchrank.runs.words import is_share

if TYPE_CHECKING:
    from altair import TopLevelMixin

#: A placeholder color that is replaced with the page's text color after drawing.
INK = "#010203"
ACCENT = "#2f7fb8"
MUTED = "#7c8490"
GOOD = "#23915f"
BAD = "#d0503f"
#: The width of a complete drawing, and of the area inside the axes of a drawing with numbers on its left.
FULL_WIDTH, WIDTH = 390, 340
HEIGHT = 300
FONT = 12
#: The width at which long labels are cut off. A label of this width fits beside any point.
LABEL_PIXELS = 150
#: The assumed maximum width of a character, as a fraction of the font size.
_CHARACTER_WIDTH = 0.6
_STYLE = "<style>svg{color:#1f2328}@media(prefers-color-scheme:dark){svg{color:#e6edf3}}</style>"


def text_pixels(text: str) -> float:
    """Return the estimated width of a label in pixels."""
    return _CHARACTER_WIDTH * FONT * len(text)


def legend(**options: Any) -> Any:
    """Return a legend below the plot."""
    import altair

    return altair.Legend(orient="bottom", columns=2, columnPadding=12, labelLimit=LABEL_PIXELS, **options)


def measured(field: str, measure: str, domain: Sequence[float]) -> Any:
    """Return the vertical axis of a measure."""
    import altair

    return altair.Y(
        f"{field}:Q",
        title=measure.replace("_", " "),
        scale=altair.Scale(domain=domain, nice=False, zero=False),
        axis=altair.Axis(format=".0%" if is_share(measure) else ".2f", tickCount=5),
    )


def ends(estimate: Estimate) -> dict[str, float]:
    """Return both ends of an estimate's interval, which are its value if there is no interval."""
    low, high = estimate.low, estimate.high
    return {
        "low": estimate.value if low is None else low,
        "high": estimate.value if high is None else high,
    }


def finished(chart: TopLevelMixin) -> dict[str, Any]:
    """Return a chart's Vega-Lite specification in the shared style, with only printable characters."""
    spec: dict[str, Any] = _printable(chart.to_dict(validate=False))
    spec["background"] = None
    spec["config"] = {
        "font": "sans-serif",
        "axis": {
            **dict.fromkeys(("labelColor", "titleColor"), INK),
            **dict.fromkeys(("domainColor", "tickColor", "gridColor"), MUTED),
            **dict.fromkeys(("labelFontSize", "titleFontSize"), FONT),
            "titleFontWeight": "normal",
            "gridOpacity": 0.2,
            "titlePadding": 10,
        },
        "legend": {"labelColor": INK, "labelFontSize": FONT, "symbolOpacity": 1},
        "header": {"labelColor": INK, "labelFontSize": FONT},
        "view": {"stroke": None},
    }
    return spec


def _printable(value: Any) -> Any:
    """Replace unprintable characters in all strings of ``value``, since they can crash vl-convert."""
    if isinstance(value, str):
        return safe(value)
    if isinstance(value, dict):
        return {key: _printable(each) for key, each in value.items()}
    return [_printable(each) for each in value] if isinstance(value, list) else value


def draw(spec: dict[str, object]) -> str:
    """Draw a Vega-Lite specification as SVG, with text in the page's text color.

    Coordinates are rounded to a hundredth of a pixel.
    """
    import vl_convert

    svg: str = vl_convert.vegalite_to_svg(spec)
    return re.sub(r"(\d\.\d\d)\d+", r"\1", svg.replace(INK, "currentColor"))


def drawings(plots: Iterable[Plot]) -> dict[str, str]:
    """Draw every plot, and return a dictionary from the plot's name to its SVG."""
    return {plot.name: draw(plot.spec) for plot in plots}


def drawn_by() -> str:
    """Return an SVG comment with the installed versions of Altair and vl-convert.

    Different versions of Altair and vl-convert can draw the same plot slightly differently.
    """
    return f"<!-- altair {version('altair')}, vl-convert {version('vl-convert-python')} -->"


def standalone(svg: str) -> str:
    """Return the content of a standalone SVG file, with colors for light and dark mode."""
    head, _, rest = svg.partition(">")
    return f"{head}>{_STYLE}{rest}\n{drawn_by()}\n"


def drawn_elsewhere(file: str) -> str | None:
    """Return the SVG in ``file`` if another version of Altair or vl-convert drew the SVG, otherwise ``None``.

    ``file`` is the content of a file made by :func:`standalone`. The result is also ``None`` if ``file`` does
    not name the versions that drew the SVG.
    """
    svg, _, drawer = file.rstrip("\n").rpartition("\n")
    if drawer == drawn_by() or not drawer.startswith("<!-- altair "):
        return None
    return svg.replace(_STYLE, "", 1)
