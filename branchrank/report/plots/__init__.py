"""The plots of a report, made as Vega-Lite specifications with Altair and drawn as SVG by vl-convert.

1. Every plot is drawn twice, for wide and for narrow screens, so that text has a readable size on both.
2. Each drawn value has a text (``aria-label``) for screen readers. The page's script shows the ``aria-label``
   as a tooltip.
3. The same data give the same bytes, so ``verify`` can draw a plot again and compare the drawings.
"""

from branchrank.report.plots.differences import differences
from branchrank.report.plots.frontier import frontier
from branchrank.report.plots.lines import Swept, risks, sweep
from branchrank.report.plots.losses import losses
from branchrank.report.plots.rates import rates

__all__ = ["Swept", "differences", "frontier", "losses", "rates", "risks", "sweep"]
