"""The summary tables of a run, for terminals and notebooks."""

from __future__ import annotations

import errno
import os
import shlex
from pathlib import Path

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from branchrank.core.io.printable import safe
from branchrank.core.io.table import Cell, Styled, Table, plain_cell, table_of
from branchrank.reports.content import heading
from branchrank.reports.losses import misses
from branchrank.reports.recommendation import cautions, headline, recommended
from branchrank.reports.result import named_rows, over, rates_tables, scoring_words
from branchrank.runs.directory import LATEST, find_run
from branchrank.runs.explanation import short_id
from branchrank.runs.run_data import RunData, with_others
from branchrank.runs.summary import FIRST_RATES, agent_table, columns_of
from branchrank.runs.words import opening, score, sentence

#: The line width for output that does not go to a terminal, large enough that no line wraps.
PIPE_WIDTH = 10_000
#: The minimum width of the column for predictor names.
_FOLDED = 10


def title(run: RunData) -> str:
    """Return the line that is printed above the first table."""
    return f"{heading(run)}, seed {run.record.seed}"


def summary_table(run: RunData) -> Table:
    """Return a table with each predictor's scores, and the columns of the summary for the terminal."""
    first = tuple(each for each in run.shown if each in run.standard and each.name in FIRST_RATES)
    scores = {
        each.name.replace("_", "\n", 1): lambda row, name=each.name: score(row.rates[name], name)
        for each in with_others(first, run.extra)
    }
    rows = named_rows(run, run.judgment.winner)
    names = {row.predictor: name for name, row in rows}
    return table_of(
        f"Means over {over(run)}",
        [row for _, row in rows],
        {
            "predictor": lambda row: names[row.predictor],
            **scores,
            **{column.short: column.text for column in columns_of("terminal", run.summary_rows)},
        },
    )


def verdicts(run: RunData) -> list[str]:
    """Return the verdict of each declared comparison, followed by the scores and the difference."""
    return [f"{opening(each)} {sentence(each)}" for each in run.judgment.comparisons]


class PipedConsole(Console):
    """A console that, unlike rich's own, raises ``BrokenPipeError`` if the output pipe is closed."""

    def on_broken_pipe(self) -> None:
        """Raise the ``BrokenPipeError`` that rich caught."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def output() -> Console:
    """Return a console for standard output. Lines are wrapped only in a terminal."""
    console = PipedConsole()
    return console if console.is_terminal else PipedConsole(width=PIPE_WIDTH)


def print_details(run: RunData) -> None:
    """Print the hit rates by gold level and for half and full hits, the comparisons and a legend."""
    console = output()
    for table in rates_tables(run):
        say(console, f"{table.caption}:", style="dim")
        print_table(console, table)
        console.print()
    for line in verdicts(run):
        say(console, line)
    say(console, " ".join(scoring_words(run)), style="dim")
    console.print()


def print_summary(run: RunData) -> None:
    """Print the verdict with its warnings, a table, and what to do next.

    The output fits in 80 columns. Colors are used if the output goes to a terminal and NO_COLOR is not set.
    """
    console = output()
    made = recommended(run)
    say(console, title(run), style="bold")
    console.print()
    for cells in headline(run, made).lines:
        console.print(Text(" ").join(map(_text, cells)))
    for caution in cautions(run):
        say(console, f"Warning: {caution}", style="yellow")
    console.print()
    print_table(console, summary_table(run))
    for column in columns_of("terminal", run.summary_rows):
        if column.meaning:
            say(console, f"{column.heading}: {column.meaning}", style="dim")
    console.print()
    if table := agent_table(run.summary_rows):
        print_table(console, table)
        console.print()
    place, keys = _place(run.directory), misses(run, made.system)
    steps = [f"  branchrank explain {place} {shlex.quote(short_id(run, key))}" for key in keys]
    for line in ["misses:", *steps] if steps else ():
        console.print(Text(safe(line)), soft_wrap=True)  # a command that is wrapped can't be copied


def _place(directory: Path) -> str:
    """Return ``latest`` if this names the run, or else the run's path in the form for a command."""
    if find_run(Path(LATEST)).absolute() == directory:
        return LATEST
    here = Path.cwd()
    return shlex.quote(str(directory.relative_to(here) if directory.is_relative_to(here) else directory))


def print_table(console: Console, table: Table, *, gap: int = 1) -> None:
    """Print a table, split into tables that fit the console's width, each with the label columns."""
    texts = [list(map(_text, row)) for row in table.rows]
    sizes = [
        max(*map(len, heading.split("\n")), *(len(row[place]) for row in texts)) + gap
        for place, heading in enumerate(table.headings)
    ]
    # Long names are wrapped, so the name column can be narrower than the longest name.
    left = sum(min(size, _FOLDED) for size in sizes[: table.labels])
    parts: list[list[int]] = [[]]
    for place in range(table.labels, len(sizes)):
        if parts[-1] and left + sum(sizes[each] for each in (*parts[-1], place)) > console.width:
            parts.append([])
        parts[-1].append(place)
    for part in parts:
        printed = RichTable(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="underline")
        for place in range(table.labels):
            printed.add_column(safe(table.headings[place]), overflow="fold")
        for place in part:
            printed.add_column(safe(table.headings[place]), justify="right", no_wrap=True)
        for row in texts:
            printed.add_row(*(row[place] for place in (*range(table.labels), *part)))
        console.print(printed)


def _text(cell: Cell) -> Text:
    return Text(safe(plain_cell(cell)), style="bold" if isinstance(cell, Styled) and cell.bold else "")


def say(console: Console, text: str, style: str = "") -> None:
    """Print text without interpreting markup in it."""
    console.print(Text(safe(text), style=style))
