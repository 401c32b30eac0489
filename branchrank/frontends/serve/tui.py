"""The Textual app, which shows a query box, a keyword box, the results, a source file and a log.

1. Each search runs in a thread. A new query replaces the running search.
2. Each search writes a line to the log. The line contains the time of day, the number of characters returned,
   and the number of files or passages found.
3. Text from documents is made printable and is never interpreted as markup.
4. Only the visible lines of a source file are rendered, so that a file of any length opens immediately. The
   line numbers stay in place when the text is scrolled horizontally.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.text import Text
from textual import on, work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Footer, Input, OptionList, RichLog, Static, Tab, Tabs
from textual.widgets.option_list import Option
from textual.worker import get_current_worker

from branchrank.core.errors import BranchRankError
from branchrank.core.io.printable import safe
from branchrank.core.records import Hit, Record
from branchrank.frontends.serve.service import Searches, preview, why
from branchrank.search.systems.search_tools import Found

LOG_LINES = 500
QUERY_CHARACTERS = 10_240
#: The number of lines above a result. Fewer lines are shown above a result whose first match would otherwise
#: be below the middle.
LEAD = 3
TAB = 4


class ChosenResult(Record, frozen=True, kw_only=True):
    """The result that the user chose, and the query that found it."""

    query: str
    hit: Hit


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


class SearchApp(App[ChosenResult]):
    """An app that searches one workspace.

    If ``choosing`` is true, F4 closes the app and returns the highlighted result.
    """

    ENABLE_COMMAND_PALETTE = False
    TITLE = "BranchRank"
    VERTICAL_BREAKPOINTS = [(0, "-short"), (32, "-tall")]  # noqa: RUF012 - as in the base class
    CSS = """
    #title { height: 1; padding: 0 1; background: $primary-background; color: $text-primary; }
    #inputs { height: 3; }
    #query { width: 2fr; }
    #keywords { width: 1fr; }
    #query, #keywords { border: round $primary; border-title-color: $text-primary; }
    #query:focus, #keywords:focus { border: round $accent; }
    #modes { height: 2; margin: 0 1; }
    #left { width: 5fr; }
    #right { width: 7fr; }
    #results, #source { border: round $panel-lighten-2; background: $background; }
    #results, #source, #status { scrollbar-size: 1 1; border-title-color: $text-muted; }
    #results:focus, #source:focus { border: round $accent; }
    #results { height: 1fr; text-wrap: nowrap; text-overflow: ellipsis; padding: 0; }
    #source { height: 1fr; }
    #path { height: 1; padding: 0 1; color: $text-accent; text-style: bold; text-overflow: ellipsis; }
    #count { height: 1; padding: 0 1; color: $text-muted; }
    .-short #status { height: 4; }
    #status { height: 6; border: round $panel-lighten-2; background: $background; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f2", "next_mode", "Next mode", priority=True),
        Binding("escape", "focus('query')", "Query"),
        Binding("f3", "focus('source')", "Source", priority=True),
        Binding("f4", "choose", "Take as gold", priority=True),
        Binding("ctrl+l", "clear_log", "Clear log"),
        Binding("ctrl+q", "quit", "Quit", priority=True),
    ]

    def __init__(
        self, searches: Searches, *, mode: str = "", query: str = "", choosing: bool = False
    ) -> None:
        """Create the app. If ``mode`` is empty, the app starts in the best available search mode."""
        super().__init__()
        self._choosing = choosing
        self._asked = ""
        self._searches = searches
        self._mode = mode or searches.best
        self._first_query = query
        self._results: Sequence[Found] = ()

    def compose(self) -> ComposeResult:
        """Yield the widgets, from top to bottom."""
        yield Static(f"BranchRank   {safe(self._searches.title)}", id="title", markup=False)
        query = Input(self._first_query, id="query", max_length=QUERY_CHARACTERS)
        query.placeholder = "Type a question, identifiers or quoted words, and press Enter"
        query.border_title = "Query"
        keywords = Input(id="keywords", max_length=QUERY_CHARACTERS)
        keywords.placeholder = "Exact words for grep"
        keywords.border_title = "Keywords"
        keywords.display = self._searches.modes[self._mode].takes_keywords
        with Horizontal(id="inputs"):
            yield query
            yield keywords
        tabs = [Tab(mode.label, id=mode.name) for mode in self._searches.modes.values()]
        yield Tabs(*tabs, active=self._mode, id="modes")
        with Horizontal():
            with Vertical(id="left"):
                yield Static("", id="count", markup=False)
                yield OptionList(id="results", markup=False)
            with Vertical(id="right"):
                yield Static("", id="path", markup=False)
                yield SourceView(id="source")
        log = RichLog(id="status", max_lines=LOG_LINES, markup=False, highlight=False, wrap=True, min_width=0)
        log.border_title = "Status"
        log.can_focus = False
        yield log
        yield Footer()

    def on_mount(self) -> None:
        """Run the initial query if there is one."""
        self.query_one("#query", Input).focus()
        if self._first_query:
            self._search()

    def action_next_mode(self) -> None:
        """Switch to the next search mode."""
        self.query_one(Tabs).action_next_tab()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enable the ``choose`` action (F4) only if the app was opened as a picker that returns a result."""
        return self._choosing if action == "choose" else super().check_action(action, parameters)

    def action_choose(self) -> None:
        """Close the app and return the highlighted result."""
        number = self.query_one("#results", OptionList).highlighted
        if number is not None and number < len(self._results):
            self.exit(ChosenResult(query=self._asked, hit=self._results[number].hit))

    def action_clear_log(self) -> None:
        """Empty the log."""
        self.query_one(RichLog).clear()

    @on(Input.Submitted)
    def _submitted(self) -> None:
        self._search()
        self.query_one("#results", OptionList).focus()

    @on(Tabs.TabActivated)
    def _mode_chosen(self, event: Tabs.TabActivated) -> None:
        chosen = event.tab.id or self._mode
        if chosen != self._mode:
            self._mode = chosen
            self.query_one("#keywords", Input).display = self._searches.modes[chosen].takes_keywords
            self._search()

    def _search(self) -> None:
        query = self.query_one("#query", Input).value
        keywords = self.query_one("#keywords", Input)
        exact = keywords.value if keywords.display else ""
        if query.strip() or exact.strip():
            self.query_one("#count", Static).update("searching ...")
            self._asked = query.strip() or exact.strip()
            self._search_in_thread(self._mode, query, exact)

    @work(thread=True, exclusive=True)
    def _search_in_thread(self, mode: str, query: str, keywords: str) -> None:
        worker = get_current_worker()
        start = time.perf_counter()
        try:
            answer = self._searches.search(mode, query, keywords)
            found, said = answer.results, (answer.status.message, "")
        except BranchRankError as error:
            found, said = (), (str(error), "bold red")
        spent = (time.perf_counter() - start) * 1000
        if not worker.is_cancelled:
            self.call_from_thread(self._say, *said)
            self.call_from_thread(self._show_results, found, spent)

    def _say(self, message: str, style: str) -> None:
        line = Text.assemble((time.strftime("%H:%M:%S "), "dim"), (safe(message), style))
        self.query_one(RichLog).write(line, expand=True)

    def _show_results(self, found: Sequence[Found], spent: float) -> None:
        self._results = found
        count = f"{len(found)} result{'' if len(found) == 1 else 's'}" if found else "nothing found"
        self.query_one("#count", Static).update(f"{count}   {spent:.0f} ms")
        results = self.query_one("#results", OptionList)
        results.clear_options()
        results.add_options([Option(_shown(rank, each)) for rank, each in enumerate(found, start=1)])
        if found:
            results.highlighted = 0
        else:
            self.query_one("#path", Static).update("")
            self.query_one(SourceView).show(())

    @on(OptionList.OptionHighlighted, "#results")
    def _highlighted(self, event: OptionList.OptionHighlighted) -> None:
        if event.option_index >= len(self._results):
            return
        found = self._results[event.option_index]
        lines = self._searches.source(found.hit)
        self.query_one("#path", Static).update(safe(found.citation))
        self.query_one(SourceView).show(
            lines, range(found.hit.line_start, found.hit.line_end + 1), found.hit.matched
        )

    @on(OptionList.OptionSelected, "#results")
    def _selected(self) -> None:
        self.query_one(SourceView).focus()


def _shown(rank: int, found: Found) -> Content:
    """Format a result for the list of results, with its location, its ranks and a few of its lines."""
    hit = found.hit
    parts: list[Content | str | tuple[str, str]] = [
        (f"{rank:>2} ", "dim"),
        (_line(found.citation), "bold $text-accent"),
    ]
    if hit.breadcrumb:
        parts += ["\n   ", (_line(hit.breadcrumb), "$text-primary")]
    parts += ["\n   ", (_line(why(found)), "dim")]
    for number, line in preview(found):
        parts.append("\n   ")
        if number is not None:
            parts.append((f"> {number} ", "bold $text-warning"))
        parts.append(_line(line))
    return Content.assemble(*parts, "\n")


def _line(text: str) -> str:
    return safe(text).replace("\n", " ").expandtabs(1)
