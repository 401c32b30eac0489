"""The style that all plots share, with sizes and colors that work on light and dark pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from branchrank.io.printable import safe

if TYPE_CHECKING:
    from altair import TopLevelMixin

#: A placeholder color that is replaced with the page's text color after drawing.
INK = "#010203"
ACCENT = "#2f7fb8"
MUTED = "#7c8490"
GOOD = "#23915f"
BAD = "#d0503f"
LINE_COLORS = ["#2f7fb8", "#d9772f", "#23917f", "#d0503f", "#8d6cab", "#9d755d", "#a88717", "#7c8490"]
LINE_DASHES = [[1, 0], [6, 2], [2, 2], [8, 2, 2, 2], [4, 4], [10, 3], [1, 3], [6, 2, 1, 2, 1, 2]]
#: The assumed maximum width of a character, as a fraction of the font size.
_CHARACTER_WIDTH = 0.6


class Frame(NamedTuple):
    """The dimensions of a drawing in pixels."""

    width: int
    height: int
    narrow: bool
    font: int
    label_pixels: int

    def text_pixels(self, text: str) -> float:
        """Return the estimated width of a label in pixels, but at most ``label_pixels``."""
        return min(self.label_pixels, _CHARACTER_WIDTH * self.font * len(text))


WIDE = Frame(width=640, height=340, narrow=False, font=13, label_pixels=240)
#: A drawing of this size, including the axis, fits on a screen 360 pixels wide.
NARROW = Frame(width=270, height=300, narrow=True, font=12, label_pixels=120)


def finished(chart: TopLevelMixin, frame: Frame) -> dict[str, Any]:
    """Return a chart's Vega-Lite specification in the shared style, with only printable characters."""
    quiet = {"labelColor": INK, "titleColor": INK, "domainColor": MUTED, "tickColor": MUTED}
    fonts = {"labelFontSize": frame.font, "titleFontSize": frame.font, "titleFontWeight": "normal"}
    spec: dict[str, Any] = _printable(chart.to_dict())
    spec["background"] = None
    spec["config"] = {
        "font": "sans-serif",
        "axis": {**quiet, **fonts, "gridColor": MUTED, "gridOpacity": 0.2, "titlePadding": 10},
        "legend": {"labelColor": INK, "labelFontSize": frame.font, "symbolOpacity": 1},
        "header": {"labelColor": INK, "labelFontSize": frame.font},
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
