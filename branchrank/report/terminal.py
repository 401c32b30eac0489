"""The summary tables of a run, for terminals and notebooks."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from branchrank.io.printable import safe
from branchrank.io.table import Cell, Styled, Table, plain_cell, table_of
from branchrank.measures.measures import NamedMeasure
from branchrank.measures.verdicts import Comparison
from branchrank.records import NOT_REPORTED
from branchrank.report.content import heading
from branchrank.report.recommendation import recommendation
from branchrank.report.result import at_depths, named, over, rates_table, value
from branchrank.runs.run import RunData, with_others
from branchrank.runs.summary import count_columns, count_words
from branchrank.runs.tables import FIRST_RATES
from branchrank.runs.words import milliseconds, number, opening, plural, score, sentence, verdict_words

#: The line width for output that does not go to a terminal, large enough that no line wraps.
PIPE_WIDTH = 400
#: The minimum width of the column for predictor names.
_FOLDED = 10

_LETTERS = {
    "S": "S = any of the gold lines",
    "H": "H = at least half of the gold lines",
    "F": "F = all of the gold lines",
    "R": "R = the gold's page",
}
#: The length in characters of the longest model name that the table shows in full.
_MODEL_CHARACTERS = 12
_VERDICT_STYLES = {
    "better": "bold green",
    "worse": "bold red",
    "equivalent within delta": "bold cyan",
    "inconclusive": "bold",
    "too few questions to tell": "bold",
}


def title(run: RunData) -> str:
    """Return the line that is printed above the first table."""
    return f"{heading(run)}, seed {run.record.seed}"


def summary_tables(run: RunData, *, short_models: bool = False) -> list[Table]:
    """Return the summary and the tables of rates, which come first if there are two gold levels."""
    summary, rates = summary_table(run, short_models), rate_tables(run)
    return [*rates, summary] if len(run.by_gold) > 1 else [summary, *rates]


def summary_table(run: RunData, short_models: bool) -> Table:
    """Return a table with each predictor's hit rates, lines per hit, latency and LLM use."""
    rates = {
        _short(each) if each.name in FIRST_RATES else each.name: lambda row, name=each.name: score(
            row.rates[name], name
        )
        for each in _shown(run)
    }
    return table_of(
        legend(run),
        run.summary_rows,
        {
            "predictor": lambda row: named(row.predictor, run.judgment),
            "LLM": lambda row: short_model(safe(row.llm)) if short_models else row.llm,
            **rates,
            "lines": lambda row: number(row.lines_per_hit),
            "p50": lambda row: milliseconds(row.latency_p50_ms),
            "p95": lambda row: milliseconds(row.latency_p95_ms),
            "calls": lambda row: number(row.llm_calls_per_query, 1, NOT_REPORTED),
            "tokens": lambda row: number(row.llm_tokens_per_query, 0, NOT_REPORTED),
            **count_columns(run.summary_rows),
        },
        labels=2,
    )


def _short(measure: NamedMeasure) -> str:
    """Return the short name of a hit rate, such as ``S@1`` for ``strict_hit@1``."""
    return f"{measure.mode[0].upper()}@{measure.measure.cutoff}"


def _shown(run: RunData) -> Sequence[NamedMeasure]:
    return with_others(
        tuple(each for each in run.shown if each in run.standard and each.name in FIRST_RATES), [run.primary]
    )


def rate_tables(run: RunData) -> list[Table]:
    """Return tables of the strict, half and full hit rates, and of the requested measures with intervals.

    If there are two gold levels, the first table also contains relaxed hit rates, and each level has its own
    rows.
    """
    depths = at_depths(run)
    is_mixed = len(run.by_gold) > 1
    relaxed = [each for each in run.shown if each.name in FIRST_RATES and each.mode == "relaxed"]
    shown = [*depths, *relaxed] if is_mixed else depths
    tables = []
    if shown:
        names = [_short(each) for each in shown]
        meanings = [text for letter, text in _LETTERS.items() if any(name[0] == letter for name in names)]
        caption = f"hit@k: {', '.join(meanings)}, over {over(run)}"
        tables.append(rates_table(run, caption, shown, headings=names, cell=value))
    if run.settings.measures or not any(map(run.primary.same, run.standard)):
        tables.append(rates_table(run, f"95% intervals, over {over(run)}", run.extra))
    return tables


def legend(run: RunData) -> str:
    """Return an explanation of the columns in the first table."""
    rates = {
        "S": "S@k: strict hit@k (one of the first k hits contains gold lines)",
        "R": "R@k: relaxed hit@k (one of the first k hits is on the gold's page)",
    }
    letters = {_short(measure)[0] for measure in _shown(run) if measure.name in FIRST_RATES}
    parts = [text for letter, text in rates.items() if letter in letters] or ["means"]
    return (
        f"{'; '.join(parts)}, over {over(run)}; lines per hit; p50, p95 in ms of "
        f"{plural(run.summary_rows[0].timed_queries, 'timed query')}; LLM calls and tokens per query, over "
        f"{plural(len(run.asked), 'question')}{count_words(run.summary_rows)}"
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


def print_summary(run: RunData) -> None:
    """Print the recommendation with its warnings, the tables, the verdicts and a legend.

    The output fits in 80 columns. Colors are used if the output goes to a terminal and NO_COLOR is not set.
    """
    console = output()
    callout = recommendation(run)
    say(console, title(run), style="bold")
    console.print()
    console.print(Text(" ").join(map(_text, callout.text)))
    for caution in callout.cautions:
        say(console, f"Warning: {caution}", style="yellow")
    console.print()
    explanation = legend(run)
    for table in summary_tables(run, short_models=True):
        print_table(console, table)
        if table.caption != explanation:
            say(console, table.caption, style="dim")
        console.print()
    for each in run.judgment.comparisons:
        console.print(_verdict(each))
    if run.judgment.comparisons:
        console.print()
    say(console, explanation, style="dim")


def print_table(console: Console, table: Table, *, gap: int = 1) -> None:
    """Print a table, split into tables that fit the console's width, each with the label columns."""
    texts = [list(map(_text, row)) for row in table.rows]
    sizes = [
        max(len(heading), *(len(row[place]) for row in texts)) + gap
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


def short_model(name: str) -> str:
    """Remove the publisher from a model's name, and the middle part from a long name.

    >>> short_model("openai/gpt-oss-20b"), short_model("meta-llama/Llama-3.3-70B-Instruct")
    ('gpt-oss-20b', 'Llama…uct')
    """
    own = name.rpartition("/")[2] or name
    return own if len(own) <= _MODEL_CHARACTERS else f"{own[:5]}…{own[-3:]}"


def _verdict(comparison: Comparison) -> Text:
    """Return the colored verdict of a comparison, and a sentence with its numbers."""
    verdict = verdict_words(comparison)
    names = opening(comparison).removesuffix(f"{verdict}.")
    return Text.assemble(
        safe(names), (verdict, _VERDICT_STYLES[comparison.verdict]), f". {safe(sentence(comparison))}"
    )


def _text(cell: Cell) -> Text:
    return Text(safe(plain_cell(cell)), style="bold" if isinstance(cell, Styled) and cell.bold else "")


def say(console: Console, text: str, style: str = "") -> None:
    """Print text without interpreting markup in it."""
    console.print(Text(safe(text), style=style))
