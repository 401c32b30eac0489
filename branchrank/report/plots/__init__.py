"""The plots in a report. Altair generates Vega-Lite specifications, and vl-convert renders them as SVG.

1. Every plot is drawn for wide screens and for narrow screens, so that its text is readable on both.
2. Each plotted value has a label for screen readers (``aria-label``), which the page's script also shows as a
   tooltip.
3. With the same versions of Altair and vl-convert, the same data always give the same SVG. ``branchrank
   verify`` therefore checks a run's plots by drawing them again and comparing the SVGs.
"""

from branchrank.report.plots.differences import differences
from branchrank.report.plots.frontier import frontier
from branchrank.report.plots.lines import Swept, risks, sweep
from branchrank.report.plots.losses import losses
from branchrank.report.plots.rates import rates

__all__ = ["Swept", "differences", "frontier", "losses", "rates", "risks", "sweep"]
