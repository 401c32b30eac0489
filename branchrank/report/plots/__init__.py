"""The plots of a report: Vega-Lite specifications through Altair, drawn as SVG by vl-convert.

1. Every plot has two drawings, one for wide and one for narrow screens, so that text keeps its size.
2. Each mark that stands for a figure says it in words (``aria-label``): screen readers read them, and the
   page's script shows them as tooltips.
3. Equal figures give equal bytes; ``verify`` draws again and compares.
"""

from branchrank.report.plots.differences import differences
from branchrank.report.plots.frontier import frontier
from branchrank.report.plots.lines import Swept, risks, sweep
from branchrank.report.plots.losses import losses
from branchrank.report.plots.rates import rates

__all__ = ["Swept", "differences", "frontier", "losses", "rates", "risks", "sweep"]
