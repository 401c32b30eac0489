"""A view of a source file with line numbers, in which the lines of the result are highlighted.

Only the visible lines are rendered, so that a file of any length opens immediately. The line numbers stay in
place when the text is scrolled horizontally.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from branchrank.io.printable import safe

#: The number of lines above a result. Fewer lines are shown above a result whose first match would otherwise
#: be below the middle.
LEAD = 3
TAB = 4


class SourceView(ScrollView, can_focus=True):
    """A widget that shows the lines of one file."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "source--text",
        "source--gutter",
        "source--result",
        "source--matched",
    }
    DEFAULT_CSS = """
    SourceView {
        .source--text { color: $text-muted; }
        .source--gutter { color: $text-disabled; }
        .source--result { color: $text; background: $primary 15%; }
        .source--matched { color: $text; background: $warning 35%; text-style: bold; }
    }
    """

    _lines: Sequence[str] = ()
    _result = range(0)
    _matched: Collection[int] = ()

    def show(
        self,
        lines: Sequence[str],
        result: range = range(0),
        matched: Collection[int] = (),
    ) -> None:
        """Show the lines of a file, and highlight a result and its matched lines.

        ``result`` and ``matched`` contain line numbers, counted from 1.
        """
        self._lines, self._result, self._matched = lines, result, frozenset(matched)
        width = max((cell_len(line.expandtabs(TAB)) for line in lines), default=0)
        self.virtual_size = Size(self._gutter_width + width, len(lines))
        first_match = min(matched, default=result.start)
        top = max(result.start - 1 - LEAD, first_match - 1 - self.size.height // 2, 0)
        self.scroll_to(0, top, animate=False, force=True)
        self.refresh()

    @property
    def _gutter_width(self) -> int:
        return len(str(len(self._lines))) + 5

    def render_line(self, y: int) -> Strip:
        """Return the rendered line in row ``y`` of the visible part of the file."""
        across, down = self.scroll_offset
        number = down + y + 1
        width = self.size.width
        if number > len(self._lines):
            return Strip.blank(width, self.rich_style)
        matched, lit = number in self._matched, number in self._result
        name = "matched" if matched else "result" if lit else "text"
        style = self.get_component_rich_style(f"source--{name}")
        gutter_style = style if lit or matched else self.get_component_rich_style("source--gutter")
        marker = ">" if matched else " "
        gutter = f"{marker} {number:>{self._gutter_width - 5}} │ "
        text = safe(self._lines[number - 1]).expandtabs(TAB)
        shown = Strip([Segment(text, style)]).crop_extend(across, across + width - len(gutter), style)
        return Strip.join([Strip([Segment(gutter, gutter_style)]), shown])
