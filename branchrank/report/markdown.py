"""Convert a report to Markdown for ``report.md``, with plots in separate files."""

from __future__ import annotations

import re
from collections.abc import Iterable

from branchrank.io.printable import safe
from branchrank.report.blocks import (
    Block,
    Callout,
    Cell,
    Code,
    Paragraph,
    Plot,
    Points,
    QuestionBrowser,
    Report,
    Strong,
    Table,
)

#: Characters that are Markdown markup, except underscores inside words such as ``hit_rate``.
_SPECIAL = re.compile(r"([\\`*\[\]<>|&~]|\b_|_\b|(?<!\w)_|^[#+-])")


def escape(text: str) -> str:
    """Convert plain text to one line of Markdown by escaping markup."""
    return _SPECIAL.sub(r"\\\1", " ".join(safe(text).split()))


def markdown(report: Report) -> str:
    """Return the complete report as Markdown."""
    parts = [f"# {escape(report.title)}", escape("; ".join(report.facts))]
    for section in report.sections:
        parts += [f"## {escape(section.title)}", *map(_block, section.blocks)]
    return "\n\n".join(parts) + "\n"


def _block(block: Block) -> str:
    if isinstance(block, Paragraph):
        return escape(block.text)
    if isinstance(block, Points):
        return "\n".join("- " + " ".join(map(_cell, item)) for item in block.items)
    if isinstance(block, Code):
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", block.text)), default=0))
        return f"{fence}\n{safe(block.text)}\n{fence}"
    if isinstance(block, Plot):
        image = f"![{escape(block.description)}](plots/{block.name}.svg)"
        return f"{image}\n\n{escape(block.caption)}"
    if isinstance(block, Callout):
        cautions = "".join(f"\n- Warning: {escape(text)}" for text in block.cautions)
        return " ".join(map(_cell, block.text)) + (cautions and f"\n{cautions}")
    if isinstance(block, QuestionBrowser):
        return escape(block.instead)
    return _table(block)


def _table(table: Table) -> str:
    rules = ["---" if place < table.labels else "---:" for place in range(len(table.headings))]
    lines = [table.headings, *table.rows]
    cells = [_line(map(_cell, line)) for line in lines]
    return "\n".join([f"{escape(table.caption)}:", "", cells[0], _line(rules), *cells[1:]])


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell) -> str:
    return f"**{escape(cell.text)}**" if isinstance(cell, Strong) else escape(cell)
