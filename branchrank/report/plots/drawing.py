"""Draw plots as SVG with vl-convert, and compare SVGs drawn with different versions of Altair and vl-convert.

Text and lines are drawn in the page's text color, so that the same SVG works on light and dark pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import version

from branchrank.report.blocks import Plot
from branchrank.report.plots.style import INK


def draw(spec: dict[str, object]) -> str:
    """Draw a Vega-Lite specification as SVG, with text in the page's text color."""
    import vl_convert

    svg: str = vl_convert.vegalite_to_svg(spec)
    return _rounded(svg.replace(INK, "currentColor"))


def drawings(plots: Iterable[Plot]) -> dict[str, str]:
    """Draw every plot for wide and for narrow screens, and return a dictionary from file name to SVG."""
    return {
        name: draw(spec)
        for plot in plots
        for name, spec in ((plot.name, plot.spec), (plot.narrow_name, plot.narrow))
    }


def _rounded(svg: str) -> str:
    """Round the coordinates in an SVG to a hundredth of a pixel."""
    return re.sub(r"(\d\.\d\d)\d+", r"\1", svg)


_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_STYLE = "<style>svg{color:#1f2328}@media(prefers-color-scheme:dark){svg{color:#e6edf3}}</style>"


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


def same_to_the_eye(svg: str, other: str) -> bool:
    """Return whether two SVGs have the same shapes and text, with coordinates less than a pixel apart."""
    if _NUMBER.split(svg) != _NUMBER.split(other):
        return False
    pairs = zip(_NUMBER.findall(svg), _NUMBER.findall(other), strict=True)
    return all(abs(float(number) - float(drawn)) < 1 for number, drawn in pairs)
