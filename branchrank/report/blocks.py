"""What a report consists of, before it is Markdown or HTML. Text is plain: each form escapes it."""

from __future__ import annotations

from typing import NamedTuple

from branchrank.records import Record


class Strong(NamedTuple):
    """Text that stands out."""

    text: str


Cell = str | Strong


class Paragraph(Record, frozen=True, kw_only=True):
    """Running text."""

    text: str


class Points(Record, frozen=True, kw_only=True):
    """A list; each item may open with words that stand out."""

    items: tuple[tuple[Cell, ...], ...]


class Table(Record, frozen=True, kw_only=True):
    """A table whose first ``labels`` columns are text and whose others are figures."""

    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    labels: int = 1


class Code(Record, frozen=True, kw_only=True):
    """Lines to copy."""

    text: str


class Plot(Record, frozen=True, kw_only=True):
    """A plot by its file's name; ``spec`` is its Vega-Lite specification, ``description`` what it shows."""

    name: str
    description: str
    spec: dict[str, object]


Block = Paragraph | Points | Table | Code | Plot


class Section(Record, frozen=True, kw_only=True):
    """A heading and what stands below it."""

    title: str
    blocks: tuple[Block, ...]

    @property
    def anchor(self) -> str:
        """The heading as a link's target."""
        return "-".join("".join(c if c.isalnum() else " " for c in self.title.casefold()).split())


class Report(Record, frozen=True, kw_only=True):
    """A whole report."""

    title: str
    lead: tuple[Block, ...]
    sections: tuple[Section, ...]
