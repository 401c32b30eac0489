"""The plots in a report. Altair makes their Vega-Lite specifications, and vl-convert draws them as SVG.

1. Every plot is drawn twice, for wide and for narrow screens, so that text has a readable size on both.
2. Each drawn value has a text for screen readers (``aria-label``), which the page's script also shows as a
   tooltip.
3. The same data always give the same bytes, so ``verify`` can draw a plot again and compare the drawings.
"""

from branchrank.report.plots.differences import differences
from branchrank.report.plots.frontier import frontier
from branchrank.report.plots.lines import Swept, risks, sweep
from branchrank.report.plots.losses import losses
from branchrank.report.plots.rates import rates

__all__ = ["Swept", "differences", "frontier", "losses", "rates", "risks", "sweep"]
