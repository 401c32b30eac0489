"""The building blocks of a report, such as paragraphs, tables and plots.

The plain text in a block is escaped when the report is written as Markdown or HTML.
"""

from __future__ import annotations

from branchrank.io.table import Cell, Table
from branchrank.records import Record


class Paragraph(Record, frozen=True, kw_only=True):
    """A paragraph of text."""

    text: str


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
    """A report's recommendation, with warnings about the run."""

    text: tuple[Cell, ...]
    cautions: tuple[str, ...] = ()


class QuestionBrowser(Record, frozen=True, kw_only=True):
    """A placeholder for the question browser. Only HTML reports contain the question browser.

    ``instead`` is the text that replaces the question browser in Markdown reports.
    """

    instead: str


Block = Paragraph | Points | Table | Code | Plot | Callout | QuestionBrowser


class Section(Record, frozen=True, kw_only=True):
    """A heading and the blocks below it."""

    title: str
    blocks: tuple[Block, ...]

    @property
    def anchor(self) -> str:
        """The HTML id of the section, made from the title."""
        return "-".join("".join(c if c.isalnum() else " " for c in self.title.casefold()).split())


class Report(Record, frozen=True, kw_only=True):
    """A complete report. ``facts`` is a short description of the run, which is printed below the title."""

    title: str
    facts: tuple[str, ...]
    sections: tuple[Section, ...]

    @property
    def plots(self) -> list[Plot]:
        """All plots in the report, in the order of the sections."""
        return [block for section in self.sections for block in section.blocks if isinstance(block, Plot)]
