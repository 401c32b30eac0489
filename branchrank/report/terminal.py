"""The summary table: what a terminal and a notebook show of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from branchrank.measures.names import NamedMeasure
from branchrank.printable import safe
from branchrank.report.blocks import Cell, Strong, Table
from branchrank.report.content import heading
from branchrank.report.rates import at_depths, named, over, rates_table
from branchrank.runs.estimates import Estimate
from branchrank.runs.run import RunData, with_others
from branchrank.runs.words import milliseconds, number, opening, percent, plural, sentence

#: Wide enough that a line stays one line for whatever reads the output next.
PIPE_WIDTH = 400
#: Columns that a predictor's name takes at least, folded where it is longer.
_FOLDED = 10

_RATES = {
    "strict_hit@1": "S@1",
    "strict_hit@5": "S@5",
    "relaxed_hit@1": "R@1",
    "relaxed_hit@5": "R@5",
}
_LETTERS = {
    "S": "S any overlap with the gold lines",
    "H": "H half of them",
    "F": "F all of them",
    "R": "R the gold's page",
}
_LABELS = ("predictor", "gold", "n")
_SHORT = {
    **_RATES,
    "half_hit@1": "H@1",
    "half_hit@5": "H@5",
    "full_hit@1": "F@1",
    "full_hit@5": "F@5",
}


def title(run: RunData) -> str:
    """The line above the table."""
    return f"{heading(run)}, seed {run.record.seed}"


def summary_table(run: RunData) -> Table:
    """One row per predictor: hit rates, the primary measure, lines, latency, LLM calls and tokens."""
    shown = _shown(run)
    rows = tuple(
        (
            named(row.predictor, run.judgement),
            row.llm,
            *(percent(row.rates[measure.name]) for measure in shown),
            number(row.lines_per_hit),
            milliseconds(row.latency_p50_ms),
            milliseconds(row.latency_p95_ms),
            number(row.llm_calls_per_query),
            number(row.llm_tokens_per_query, 0),
        )
        for row in run.summary_rows
    )
    rates = (_RATES.get(measure.name, measure.name) for measure in shown)
    headings = ("predictor", "LLM", *rates, "lines", "p50", "p95", "calls", "tokens")
    return Table(caption=legend(run), headings=headings, rows=rows, labels=2)


def _shown(run: RunData) -> Sequence[NamedMeasure]:
    return with_others(tuple(each for each in run.standard if each.name in _RATES), [run.primary])


def rate_tables(run: RunData) -> list[Table]:
    """Strict hits at every depth, and the measures that were asked for with their intervals.

    Where gold is of both levels, the first one has all hit rates, each level in rows of its own.
    """
    depths = at_depths(run)
    is_mixed = len(run.by_gold) > 1
    relaxed = [each for each in run.standard if each.name in _RATES and each.mode == "relaxed"]
    shown = [*depths, *relaxed] if is_mixed else depths
    tables = []
    if shown:
        names = [_SHORT[each.name] for each in shown]
        meanings = [text for letter, text in _LETTERS.items() if any(name[0] == letter for name in names)]
        caption = f"hit@k: {', '.join(meanings)}, over {over(run)}"
        tables.append(rates_table(run, caption, shown, headings=names, labels=_LABELS, cell=_value))
    if run.settings.measures or not any(map(run.primary.same, run.standard)):
        tables.append(rates_table(run, f"95% intervals, over {over(run)}", run.extra, labels=_LABELS))
    return tables


def _value(found: Estimate | None) -> str:
    return percent(None if found is None else found.value)


def legend(run: RunData) -> str:
    """What the columns mean."""
    rates = {
        "S": "S@k strict hit@k, the answer is in the first k hits",
        "R": "R@k relaxed hit@k, its page is",
    }
    letters = {_RATES[measure.name][0] for measure in _shown(run) if measure.name in _RATES}
    parts = [text for letter, text in rates.items() if letter in letters]
    asked = plural(len(run.asked), "question")
    return (
        f"{'; '.join(parts)}, over {over(run)}; lines per hit; p50, p95 in ms of "
        f"{plural(run.summary_rows[0].timed_queries, 'timed query')}; LLM calls and tokens per query, over "
        f"{asked}"
    )


def notices(run: RunData) -> list[str]:
    """The run's warnings, and each predictor's failures and fallbacks."""
    found = list(run.record.warnings)
    for row in run.summary_rows:
        if row.failures or row.fallbacks:
            text = f"{row.predictor}: {row.failures} failed queries, {row.fallbacks} with a fallback"
            errors = Counter(
                each.error for each in run.rows if each.predictor == row.predictor and each.error
            )
            for error, _ in errors.most_common(1):
                text += f"; most often: {error}"
            found.append(text)
    return found


def cached_calls(run: RunData) -> str:
    """How many LLM calls of each predictor the decision cache answered; empty when it answered none."""
    asked = Counter(call.predictor for call in run.ledger)
    cached = Counter(call.predictor for call in run.ledger if call.served_by == "cache")
    counts = ", ".join(f"{cached[name]} of {asked[name]} ({name})" for name in run.predictors if cached[name])
    return counts and f"LLM calls from the decision cache: {counts}"


def verdicts(run: RunData) -> list[str]:
    """A sentence for each declared comparison."""
    return [f"{opening(each)} {sentence(each)}" for each in run.judgement.comparisons]


def print_summary(run: RunData) -> None:
    """Print one line per predictor, a legend, the rates at every depth, and the verdicts; 80 columns are
    enough. Where gold is of both levels, their rates come first."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=PIPE_WIDTH)
    summary, rates = summary_table(run), rate_tables(run)
    say(console, title(run), style="bold")
    for table in (*rates, summary) if len(run.by_gold) > 1 else (summary, *rates):
        for part in _fitting(table, console.width):
            _print_table(console, part)
        say(console, table.caption, style="dim")
    if cached := cached_calls(run):
        say(console, cached, style="dim")
    for notice in notices(run):
        say(console, notice, style="yellow")
    for verdict in verdicts(run):
        say(console, verdict)


def _print_table(console: Console, content: Table) -> None:
    table = RichTable(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="underline")
    for place, name in enumerate(content.headings):
        if place < content.labels:
            table.add_column(name, overflow="fold")
        else:
            table.add_column(name, justify="right", no_wrap=True)
    for row in content.rows:
        table.add_row(*(_text(cell) for cell in row))
    console.print(table)


def _fitting(table: Table, width: int) -> list[Table]:
    """The table in parts whose columns of figures fit into a line; each has the labels again."""
    columns = [
        max(len(heading), *(len(_text(row[place])) for row in table.rows)) + 1
        for place, heading in enumerate(table.headings)
    ]
    # A long name is folded.
    left = sum(min(size, _FOLDED) for size in columns[: table.labels])
    parts: list[list[int]] = [[]]
    for place in range(table.labels, len(columns)):
        if parts[-1] and left + sum(columns[each] for each in (*parts[-1], place)) > width:
            parts.append([])
        parts[-1].append(place)
    labels = range(table.labels)
    return [
        msgspec.structs.replace(
            table,
            headings=tuple(table.headings[place] for place in (*labels, *part)),
            rows=tuple(tuple(row[place] for place in (*labels, *part)) for row in table.rows),
        )
        for part in parts
    ]


def _text(cell: Cell) -> Text:
    return Text(safe(cell.text), style="bold") if isinstance(cell, Strong) else Text(safe(cell))


def say(console: Console, text: str, style: str = "") -> None:
    """Print text from anywhere without markup."""
    console.print(Text(safe(text), style=style))
