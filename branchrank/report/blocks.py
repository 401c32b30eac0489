"""The blocks of a report, which become Markdown or HTML. Text is plain: each output form escapes it."""

from __future__ import annotations

from typing import NamedTuple

from branchrank.records import Record


class Strong(NamedTuple):
    """Emphasised text."""

    text: str


Cell = str | Strong


class Paragraph(Record, frozen=True, kw_only=True):
    """Running text."""

    text: str


class Points(Record, frozen=True, kw_only=True):
    """A list; each item may begin with emphasised words."""

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
    """A plot, named after its file.

    ``description`` gives every figure in it, ``caption`` explains how to read it. ``spec`` is its Vega-Lite
    specification, ``narrow`` the one for narrow screens.
    """

    name: str
    description: str
    caption: str
    spec: dict[str, object]
    narrow: dict[str, object]

    @property
    def narrow_name(self) -> str:
        """The name of the file for narrow screens."""
        return f"{self.name}-narrow"


class Callout(Record, frozen=True, kw_only=True):
    """The main result, with the warnings that belong to it."""

    text: tuple[Cell, ...]
    cautions: tuple[str, ...] = ()


class QuestionBrowser(Record, frozen=True, kw_only=True):
    """The place of the question browser; output forms without a browser print ``instead``."""

    instead: str


Block = Paragraph | Points | Table | Code | Plot | Callout | QuestionBrowser


class Section(Record, frozen=True, kw_only=True):
    """A heading and the blocks below it."""

    title: str
    blocks: tuple[Block, ...]

    @property
    def anchor(self) -> str:
        """The heading as a link's target."""
        return "-".join("".join(c if c.isalnum() else " " for c in self.title.casefold()).split())


class Report(Record, frozen=True, kw_only=True):
    """A whole report; ``facts`` is a short description of the run, printed below the title."""

    title: str
    facts: tuple[str, ...]
    sections: tuple[Section, ...]

    @property
    def plots(self) -> list[Plot]:
        """Every plot, in order."""
        return [block for section in self.sections for block in section.blocks if isinstance(block, Plot)]
