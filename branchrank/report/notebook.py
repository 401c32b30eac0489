"""The display of a run in a notebook, with the recommendation, tables, differences and verdicts."""

from __future__ import annotations

from branchrank.io.table import html_text
from branchrank.report.blocks import Block
from branchrank.report.drawing import draw
from branchrank.report.html import block_html
from branchrank.report.plots import differences
from branchrank.report.recommendation import recommendation
from branchrank.report.terminal import rate_tables, summary_table, title, verdicts
from branchrank.runs.run import RunData

#: Row headings are not bold, because a predictor's name in bold marks a significant winner.
_STYLE = (
    "<style>.branchrank-run tbody th {font-weight: normal; text-align: left} "
    ".branchrank-run caption {text-align: left}</style>"
)


def run_html(run: RunData) -> str:
    """Return a run's summary as HTML, with escaped text and the plot as inline SVG."""
    compared = run.judgment.comparisons
    shown = [differences(compared)] if compared else []
    summary, rates = summary_table(run), rate_tables(run)
    tables = [*rates, summary] if len(run.by_gold) > 1 else [summary, *rates]
    blocks: list[Block] = [recommendation(run), *tables, *shown, *verdicts(run)]
    drawn = {plot.name: draw(plot.spec) for plot in shown}
    body = "\n".join(block_html(block, drawn) for block in blocks)
    heading = f"<p><strong>{html_text(title(run))}</strong></p>"
    return f'<div class="branchrank-run">{_STYLE}{heading}\n{body}\n</div>'
