"""The building blocks of a report, such as tables and plots, and their form in Markdown.

The plain text in a block is escaped when the report is written as Markdown or HTML.
"""

from __future__ import annotations

import re

from branchrank.core.io.printable import safe
from branchrank.core.io.table import Cell, Table, markdown_cell, markdown_table, markdown_text
from branchrank.core.records import Record


class Points(Record, frozen=True, kw_only=True):
    """A list whose items can contain emphasized words."""

    items: tuple[tuple[Cell, ...], ...]


class Code(Record, frozen=True, kw_only=True):
    """A block of code to copy."""

    text: str


class Plot(Record, frozen=True, kw_only=True):
    """A plot with its file name, description and caption.

    ``description`` lists all values of the plot as text, and ``caption`` explains how to read the plot.
    ``spec`` is the plot's Vega-Lite specification.
    """

    name: str
    description: str
    caption: str
    spec: dict[str, object]


class Callout(Record, frozen=True, kw_only=True):
    """A report's recommendation in lines, with warnings about the run."""

    lines: tuple[tuple[Cell, ...], ...]
    cautions: tuple[str, ...] = ()


class QuestionBrowser(Record, frozen=True, kw_only=True):
    """A placeholder for the question browser. Only HTML reports contain the question browser.

    Markdown reports contain ``misses`` and the text ``instead``.
    """

    instead: str
    misses: tuple[Table, ...] = ()


#: A string is a paragraph.
Block = str | Points | Table | Code | Plot | Callout | QuestionBrowser


class ReportSection(Record, frozen=True):
    """A heading and the blocks below it, which an HTML report shows only on demand if ``folded`` is true."""

    title: str
    blocks: tuple[Block, ...]
    folded: bool = False

    @property
    def anchor(self) -> str:
        """The HTML id of the section, made from the title."""
        return "-".join("".join(c if c.isalnum() else " " for c in self.title.casefold()).split())


class Report(Record, frozen=True, kw_only=True):
    """A complete report. ``facts`` is a short description of the run, which is printed below the title."""

    title: str
    facts: tuple[str, ...]
    sections: tuple[ReportSection, ...]

    @property
    def plots(self) -> list[Plot]:
        """All plots in the report, in the order of the sections."""
        return [block for section in self.sections for block in section.blocks if isinstance(block, Plot)]


def markdown(report: Report) -> str:
    """Return the complete report as Markdown, with plots in separate files."""
    parts = [f"# {markdown_text(report.title)}", markdown_text("; ".join(report.facts))]
    for section in report.sections:
        parts += [f"## {markdown_text(section.title)}", *map(_markdown_block, section.blocks)]
    return "\n\n".join(parts) + "\n"


def _markdown_block(block: Block) -> str:
    if isinstance(block, str):
        return markdown_text(block)
    if isinstance(block, Points):
        return "\n".join("- " + " ".join(map(markdown_cell, item)) for item in block.items)
    if isinstance(block, Code):
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", block.text)), default=0))
        return f"{fence}\n{safe(block.text)}\n{fence}"
    if isinstance(block, Plot):
        image = f"![{markdown_text(block.description)}](plots/{block.name}.svg)"
        return f"{image}\n\n{markdown_text(block.caption)}"
    if isinstance(block, Callout):
        lines = [" ".join(map(markdown_cell, line)) for line in block.lines]
        cautions = "\n".join(f"- Warning: {markdown_text(text)}" for text in block.cautions)
        return "\n\n".join(filter(None, [*lines, cautions]))
    if isinstance(block, QuestionBrowser):
        return "\n\n".join([*map(markdown_table, block.misses), markdown_text(block.instead)])
    return markdown_table(block)
