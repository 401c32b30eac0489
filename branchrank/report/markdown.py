"""Convert a report to Markdown for ``report.md``, with plots in separate files."""

from __future__ import annotations

import re

from branchrank.io.printable import safe
from branchrank.io.table import markdown_cell, markdown_table, markdown_text
from branchrank.report.blocks import (
    Block,
    Callout,
    Code,
    Paragraph,
    Plot,
    Points,
    QuestionBrowser,
    Report,
)


def markdown(report: Report) -> str:
    """Return the complete report as Markdown."""
    parts = [f"# {markdown_text(report.title)}", markdown_text("; ".join(report.facts))]
    for section in report.sections:
        parts += [f"## {markdown_text(section.title)}", *map(_block, section.blocks)]
    return "\n\n".join(parts) + "\n"


def _block(block: Block) -> str:
    if isinstance(block, Paragraph):
        return markdown_text(block.text)
    if isinstance(block, Points):
        return "\n".join("- " + " ".join(map(markdown_cell, item)) for item in block.items)
    if isinstance(block, Code):
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", block.text)), default=0))
        return f"{fence}\n{safe(block.text)}\n{fence}"
    if isinstance(block, Plot):
        image = f"![{markdown_text(block.description)}](plots/{block.name}.svg)"
        return f"{image}\n\n{markdown_text(block.caption)}"
    if isinstance(block, Callout):
        cautions = "".join(f"\n- Warning: {markdown_text(text)}" for text in block.cautions)
        return " ".join(map(markdown_cell, block.text)) + (cautions and f"\n{cautions}")
    if isinstance(block, QuestionBrowser):
        return markdown_text(block.instead)
    return markdown_table(block)
