"""A run as a notebook shows it: the summary table, the verdicts and the plot of the rates."""

from __future__ import annotations

from branchrank.report.blocks import Block, Paragraph
from branchrank.report.html import block_html, escape
from branchrank.report.plots import draw
from branchrank.report.rates import rates_plot
from branchrank.report.terminal import notices, rate_tables, summary_table, title, verdicts
from branchrank.runs.run import RunData

#: A row's heading is the name of a predictor: bold is for a winner whose test passed, not for headings.
_STYLE = (
    "<style>.branchrank-run tbody th {font-weight: normal; text-align: left} "
    ".branchrank-run caption {text-align: left}</style>"
)


def run_html(run: RunData) -> str:
    """The run as HTML in which every text is escaped; the plot is inline SVG."""
    plot = rates_plot(run)
    texts = [Paragraph(text=text) for text in (*notices(run), *verdicts(run))]
    summary, rates = summary_table(run), rate_tables(run)
    tables = [*rates, summary] if len(run.by_gold) > 1 else [summary, *rates]
    blocks: list[Block] = [*tables, *texts, plot]
    drawings = {plot.name: draw(plot)}
    body = "\n".join(block_html(block, drawings) for block in blocks)
    heading = f"<p><strong>{escape(title(run))}</strong></p>"
    return f'<div class="branchrank-run">{_STYLE}{heading}\n{body}\n</div>'
