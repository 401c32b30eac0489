"""Drawing plots as SVG with vl-convert, and comparing SVGs that different versions drew.

Text and lines are drawn in the text colour of the page, so that one SVG works on light and dark pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import version

from branchrank.report.blocks import Plot
from branchrank.report.plots.style import INK


def draw(spec: dict[str, object]) -> str:
    """Draw a Vega-Lite specification as SVG, with text in the text colour of the page."""
    import vl_convert

    svg: str = vl_convert.vegalite_to_svg(spec)
    return _rounded(svg.replace(INK, "currentColor"))


def drawings(plots: Iterable[Plot]) -> dict[str, str]:
    """Draw every plot for wide and narrow screens, and return the SVG by file name."""
    return {
        name: draw(spec)
        for plot in plots
        for name, spec in ((plot.name, plot.spec), (plot.narrow_name, plot.narrow))
    }


def _rounded(svg: str) -> str:
    """Round coordinates to a hundredth of a pixel."""
    return re.sub(r"(\d\.\d\d)\d+", r"\1", svg)


_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_STYLE = "<style>svg{color:#1f2328}@media(prefers-color-scheme:dark){svg{color:#e6edf3}}</style>"


def drawn_by() -> str:
    """Return the versions of the drawing packages, since other versions can draw slightly differently."""
    return f"<!-- altair {version('altair')}, vl-convert {version('vl-convert-python')} -->"


def standalone(svg: str) -> str:
    """Return an SVG as the text of a separate file, with light or dark colours as in the reader's system."""
    head, _, rest = svg.partition(">")
    return f"{head}>{_STYLE}{rest}\n{drawn_by()}\n"


def drawn_elsewhere(file: str) -> str | None:
    """Return the SVG in a :func:`standalone` file that another version drew, or ``None`` for other files."""
    svg, _, drawer = file.rstrip("\n").rpartition("\n")
    if drawer == drawn_by() or not drawer.startswith("<!-- altair "):
        return None
    return svg.replace(_STYLE, "", 1)


def same_to_the_eye(svg: str, other: str) -> bool:
    """Return whether two SVGs have the same shapes and texts, with coordinates less than a pixel apart."""
    if _NUMBER.split(svg) != _NUMBER.split(other):
        return False
    pairs = zip(_NUMBER.findall(svg), _NUMBER.findall(other), strict=True)
    return all(abs(float(number) - float(drawn)) < 1 for number, drawn in pairs)
